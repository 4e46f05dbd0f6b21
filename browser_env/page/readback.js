// Compares what stands in a field with what was written into it, and reads it back in the next pass.

const fold = (text) => text.normalize('NFKC').toUpperCase().replace(/\s/g, '');
const letters = (text) => text.replace(/[^\p{L}\p{N}]/gu, '');
const isWithin = (part, whole) => { let at = 0; for (const one of part) { at = whole.indexOf(one, at) + 1; if (!at) return false; } return true; };
function numberOf(text) {
  const plain = text.replace(/[,\p{Sc}]/gu, '');
  return /^-?(0|[1-9]\d*)?(\.\d*)?$/.test(plain) && /\d/.test(plain) ? Number(plain) : NaN;
}

// How the value of a field compares with what it should hold: `same` but for what fields change as they are written to (case,
// forms of a letter, spaces, added separators, a completion); `changed` where marks of the text or its number got lost;
// `other`. `before` is what the field held before.
function comparison(value, text, before) {
  const [now, wanted, old] = [value, text, before].map(fold);
  if (now === wanted) return 'same';
  if (!wanted) return letters(now) ? 'other' : 'same';
  const [a, b] = [numberOf(now), numberOf(wanted)];
  if (a === b) return 'same';
  const numbers = !isNaN(a) && !isNaN(b);
  if (letters(now) === letters(wanted)) {
    if (!letters(now)) return now.includes(wanted) ? 'same' : 'other';
    return !numbers && isWithin(wanted, now) ? 'same' : 'changed';
  }
  if (numbers || old && now.length === old.length + wanted.length && now.includes(old)) return 'other';
  return now.startsWith(wanted) ? 'same' : now.includes(wanted) ? 'changed' : 'other';
}

let unread = null;  // the field that is written to in this step, and how it is read back

// Has a field read back by the next pass; without a number, none.
function readLater(number, id, way, read) {
  unguard();
  unread = number ? {number, id, way, read} : null;
}

// What became of the text that was last written into a field, once; `number` is that of the writing.
function readBack() {
  if (!unread) return null;
  const {number, id, way, read} = unread;
  unread = null;
  try { return {number, id, way, ...read()}; } catch { return null; }
}

let guarded = null;  // the field that is written to in this step, and what else the text was about to go into

const GUARDED = 5000;  // milliseconds after the last key in which another belongs to the same text

// Lets a text go nowhere but into a field, or the keys of one that is typed (`keydown`) to no button and not to the page:
// it may move the focus at any time, also into other frames. Keys may follow it into other fields: codes have one for each
// digit.
function guard(el, type) {
  const windows = new Set([window, DOC.defaultView(el.ownerDocument), ...documentWindows()]);
  guarded = {el, type, windows: [...windows].filter(Boolean), strayed: null, end: performance.now() + GUARDED};
  for (const win of guarded.windows) win.addEventListener(type, onWriting, true);
}

// Ends that; returns where the text was about to go instead, if it was.
function unguard() {
  for (const win of guarded?.windows || []) win.removeEventListener(guarded.type, onWriting, true);
  const strayed = guarded?.strayed;
  guarded = null;
  return strayed;
}

function onWriting(event) {
  if (!guarded || !event.isTrusted) return;
  if (performance.now() > guarded.end) { unguard(); return; }
  guarded.end = performance.now() + GUARDED;
  const target = focusedElement() || event.composedPath()[0];
  if (target === guarded.el || isInside(target, guarded.el)) return;
  const taken = guarded.type === 'keydown' ? isEditable(target) || !PRESSED.has(roleOf(target)) && target !== DOC.body(target.ownerDocument) : isInside(guarded.el, target);
  if (taken) return;
  guarded.strayed = target;
  event.stopImmediatePropagation();
  event.preventDefault();
}

// A field is gone: was it drawn anew with its text, as frameworks do?
function goneWith(text) {
  const fields = everywhere(document, 'input, textarea');
  return fields.some((one) => comparison(one.value, text, '') === 'same') ? {} : {gone: true};
}

// What a text field holds after it was filled: `shown` if that is another text, `changed` if it is nearly the same,
// `objection` if the browser doesn't accept it, `cleared` if it is empty on a page that has changed: the page made
// something else of it, a tag or a message. `gone` if it is no longer there, `strayed` where the text was about to go instead.
function filled(id, text, {edition: seen, value}) {
  const strayed = unguard();
  if (strayed) return {strayed: holderName(strayed)};
  const {el: named, error} = find(id);
  if (error) return goneWith(text);
  const el = fieldOf(named);
  switch (comparison(el.value, text, value)) {
    case 'same': return unaccepted(el);
    case 'changed': return {changed: masked(el, el.value)};
  }
  if (heldOn(el).some((held) => comparison(held, text, '') === 'same')) return {};
  if (el.value === '' && edition() !== seen) return {cleared: true};
  return {shown: masked(el, el.value), ignored: text !== '' && (el.value === '' || el.value === value)};
}

// What has the focus or was about to get a text, for messages.
const holderName = (el) => el === DOC.body(el.ownerDocument) ? 'nothing' : `[${idOf(el)}] ${called(el)}`;

// What a field holds after `text` was typed at its end, if that isn't all there: it may take no more characters, or no
// letters, or the page has moved the focus on (`focus`). An editor makes what it likes of a text, but not nothing.
function typed(id, text, {edition: seen, value}) {
  const strayed = unguard();
  if (strayed) return {strayed: holderName(strayed)};
  const {el: named, error} = find(id);
  if (error) return text.includes('\n') ? {} : goneWith(value + text);
  const el = fieldOf(named);
  if (el.closest(EDITORS) || text.includes('\n')) return {};
  if (el.isContentEditable) return letters(text) && el.innerText === value && edition() === seen ? {shown: value} : {};
  const focused = focusedElement();
  const wanted = letters(value) ? [value + text] : [value + text, text];  // what has no letters is a mask
  if (!textField(el) || [el.value, ...heldOn(el)].some((held) => wanted.some((one) => comparison(held, one, '') === 'same'))) return {};
  const elsewhere = focused && focused !== el && focused !== DOC.body(focused.ownerDocument) ? {focus: holderName(focused)} : {};
  return el.value || edition() === seen ? {shown: masked(el, el.value), ...elsewhere} : {};
}

const MOST_PARTS = 12;

// What a field and those after it hold together, for each number of them, if they are those of a code: each takes a part.
function heldOn(first) {
  const all = everywhere(first.ownerDocument, 'input').filter(textField);
  const fields = all.slice(all.indexOf(first), all.indexOf(first) + MOST_PARTS);
  const arePartsOfOne = (some) => {
    const [last, ...others] = some.map((one) => one.value.length).reverse();
    return some.slice(0, -1).every((one) => one.value.length === one.maxLength) || others.every((length) => length === others[0]) && (others.length > 1 || last <= others[0]);
  };
  return fields.map((_, i) => fields.slice(0, i + 1)).slice(1).filter(arePartsOfOne).map((some) => some.map((one) => one.value).join(''));
}

// Where keys go: the origin of the document with the focus, or the number of a frame with another document that holds
// it. What may hide a frame in a closed shadow root is a suspect.
function keysGo() {
  const el = focusedElement();
  let inner = null;
  try { inner = el?.contentDocument; } catch { /* another origin */ }
  if (el && !inner && (FRAMES.has(tagOf(el)) || tagOf(el) === 'fencedframe')) return {frame: holderNumber(el)};
  if (el && !rootOf(el) && !isEditable(el)) suspects.push(el);
  return {origin: DOC.defaultView(inner || el && documentOf(el) || document).origin};
}

// Has what has the focus read back and guarded, if it is a field: it is typed into without having been named.
function prepareFocused({text, number}) {
  const el = focusedElement();
  if (!el || el === DOC.body(el.ownerDocument) && !isEditable(el)) return {nothing: true};
  if (!isEditable(el)) return {};
  const id = idOf(el);
  const before = {edition: edition(), value: heldBy(el)};
  readLater(number, id, 'type', () => typed(id, text, before));
  guard(el, 'keydown');
  return {};
}

// The text of a field, or of an editor that shows all of it.
const heldBy = (el) => textField(el) ? el.value : el.isContentEditable && !el.closest(EDITORS) ? el.innerText : '';
