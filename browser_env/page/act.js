// What actions need from the page: where to point the mouse, and what is done through the DOM.

// An element's tag, id and class, these two only if they are plain names: a page can write anything there.
const describe = (el) => {
  const name = (mark, text) => /^[\w-]{1,40}$/.test(text) ? mark + text : '';
  return name('', el.localName) + name('#', el.id) + name('.', String(el.className?.baseVal ?? el.className).trim().split(/\s+/)[0]);
};
const ariaOf = (el, name) => semantic(el, 'aria-' + name) === 'true';
const disabled = (el) => el.matches(':disabled') || el.closest('[aria-disabled=true]') !== null;

// Why the element can't be used now, or null.
function barred(el) {
  for (let node = el; node; node = parentAcross(node)) if (node.inert === true) return 'inert';
  for (let doc = el.ownerDocument, inner = el; doc; inner = holderOf(doc), doc = inner?.ownerDocument) {
    const modal = topModal(doc);
    if (modal && !isInside(inner, modal) && !inner.closest('[popover]:popover-open')) return 'modal';
  }
  return null;
}

// Points of an element at which it may be reached, its middle first; with `words`, those of an item before that.
function points(el, words) {
  const rect = boxOf(el);
  const out = [[rect.left + rect.width / 2, rect.top + rect.height / 2]];
  const own = words && ITEMS.has(roleOf(el)) ? wordsOf(el) : null;
  if (own && firstIn(el, ITEMS_WITHIN)) return [own];
  if (own && !isAtWords(el, ...out[0])) out.unshift(own);
  for (const r of Array.from(el.getClientRects()).slice(0, 4)) out.push([r.left + r.width / 2, r.top + r.height / 2]);
  for (const [fx, fy] of [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75], [0.5, 0.1], [0.5, 0.9]]) out.push([rect.left + rect.width * fx, rect.top + rect.height * fy]);
  return out;
}

// Items that may be wider than their words, which alone may react, or have further items inside.
const ITEMS = new Set(['listitem', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem']);

const ITEMS_WITHIN = ['li', ...Array.from(ITEMS, (role) => `[role=${role}]`)].join(', ');

// The middle of an item's first own words: those that are in no control and no other item inside; null if it has none.
function wordsOf(item) {
  const isOwn = (node) => {
    let up = parentOf(node);
    while (up && up !== item && !INTERACTIVE_ROLES.has(roleOf(up)) && !ITEMS.has(roleOf(up))) up = parentOf(up);
    return up === item;
  };
  const walker = walkerOf(document, item, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const [rect] = squeeze(node.data) && isOwn(node) ? boxesOf(node) : [], within = rectOf(parentOf(node));
    const left = Math.max(rect?.left, within.left), right = Math.min(rect?.right, within.right);  // it may be cut
    if (right - left > 1) return [(left + right) / 2, rect.top + rect.height / 2];
  }
  return null;
}

function boxesOf(text) {
  const range = DOC.createRange(text.ownerDocument);
  range.selectNodeContents(text);
  return Array.from(range.getClientRects()).filter(({width, height}) => width && height);
}

// Are words of an item, or a picture in it, at this point, and not only its background?
function isAtWords(item, x, y) {
  const hit = deepest(item.ownerDocument, x, y);
  if (!hit || !isInside(hit, item)) return false;
  if (!hit.firstChild && hit !== item) return true;
  return Array.from(hit.childNodes).some((node) => node.nodeType === 3 && boxesOf(node).some((box) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom));
}

const sized = (el) => { const rect = boxOf(el); return rect.width > 0 && rect.height > 0; };
const drawn = (el) => {
  const style = getComputedStyle(el);
  if (style.visibility !== 'visible' || !(sized(el) || el.getClientRects().length > 0 && !(el.offsetWidth && el.offsetHeight))) return false;
  return style.display === 'contents' || el.localName === 'area' || el.checkVisibility();  // not in a closed <details> and the like
};

// Brings an element into view; one that has no box of its own by what is in it.
function bring(el, block) {
  for (let node = el.localName === 'area' && imageOf(el) || el; node; node = node.firstElementChild) {
    if (getComputedStyle(node).display === 'contents') continue;
    node.scrollIntoView({block, inline: block, behavior: 'instant'});
    return;
  }
}

// A point of `target` at which a click reaches `el` (itself, or its label's control), or null.
function pointOf(target, el, words) {
  for (const [x, y] of points(target, words)) {
    if (reachedAt(target, el, x, y)) return [x, y];
  }
  return null;
}
const reachedAt = (target, el, x, y) => hits(target, x, y) === true && (target === el || !linkAt(target, x, y));

// Such a point where none of the usual ones is free: a strip of a button beside what lies on it.
const freePart = (target, el) => gridOf(target).find(([x, y]) => reachedAt(target, el, x, y)) || null;

// What takes the mouse for an element that lets it through: something around it that reacts to clicks, or null.
function carrier(el, x, y) {
  const hit = hits(el, x, y);
  if (!hit || hit === true || !isInside(el, hit)) return null;
  for (let up = hit; up && up !== DOC.body(el.ownerDocument); up = parentAcross(up)) {
    if (tagOf(up) !== 'form' && (WHOLE.has(roleOf(up)) || listens(up))) return hit;
  }
  return null;
}

// Such a point where the element is scrolled to whatever part of the view is free: a band between a high header and a footer.
function freeBand(target, el) {
  const doc = target.ownerDocument, page = DOC.scrollingElement(doc);
  const list = scrollableAt(parentAcross(target)) || page;
  if (!list || list.ownerDocument !== doc) return null;
  const view = list === page ? {top: 0, height: DOC.defaultView(doc).innerHeight} : rectOf(list);
  for (let row = 0.5; row < GRID; row++) {
    const {top, height} = boxOf(target);
    const before = list.scrollTop;
    list.scrollBy({top: top + height / 2 - view.top - view.height * row / GRID, behavior: 'instant'});
    if (list.scrollTop === before) continue;
    const at = pointOf(target, el);
    if (at) return at;
  }
  bring(target, 'center');
  return null;
}

const linkAt = (label, x, y) => { const link = deepest(label.ownerDocument, x, y)?.closest('a[href], button'); return link && label.contains(link); };

// Is the element's centre in view, in its own frame and in those around it?
function inView(el) {
  const rect = boxOf(el);
  let x = rect.left + rect.width / 2, y = rect.top + rect.height / 2;
  for (let doc = el.ownerDocument; ; ) {
    const win = DOC.defaultView(doc);
    if (x < 0 || y < 0 || x >= win.innerWidth || y >= win.innerHeight) return false;
    const holder = holderOf(doc);
    if (!holder) return true;
    [x, y] = outOf(insideOf(holder), x, y);
    doc = holder.ownerDocument;
  }
}

// Where the mouse reaches the element, in coordinates of this document's viewport.
// `press`: the number of the press that follows, which is watched over; 0 for none.
// `drop`: the target of a drag, which need not take the mouse while something is held over it. `words`: as in points.
function locate({id, hover, press, drop, words}) {
  letGo();
  const {el, error} = find(id);
  if (error) return {error};
  if (!hover && (disabled(el) || el.localName === 'label' && el.control && disabled(el.control))) return {error: 'disabled'};
  const bar = barred(el);
  if (bar) return {error: bar};
  const labels = labelsOf(el).filter((label) => label !== el && drawn(label) && sized(label));
  const targets = [...(drawn(el) && (sized(el) || !labels.length) ? [el] : []), ...labels];
  if (!targets.length) return {error: 'hidden'};
  let scrolled = false;
  for (const target of targets) {
    let at = inView(target) ? pointOf(target, el, words) : null;
    for (const block of ['center', 'start', 'end', 'nearest']) {  // a bar that is fixed there may cover one of them
      if (at) break;
      const before = boxOf(target);
      bring(target, block);
      const after = boxOf(target);
      const moved = before.top !== after.top || before.left !== after.left;
      scrolled = scrolled || moved;
      at = moved || block === 'center' ? pointOf(target, el, words) : null;
    }
    if (!at && scrolled) bring(target, 'center');
    at ||= freePart(target, el) || freeBand(target, el);
    if (at) {
      noteActed(el, hover);
      if (press) expectPress(press, el, target, ...at);
      const [x, y] = toTop(target, ...at);
      return {x, y, scrolled};
    }
  }
  const [x, y] = points(targets[0])[0];
  if (getComputedStyle(targets[0]).pointerEvents === 'none' && !drop) {
    const around = carrier(targets[0], x, y);
    if (!around) return {error: 'mouseless'};
    noteActed(around, hover);
    if (press) expectPress(press, around, around, x, y);
    const [left, up] = toTop(around, x, y);
    return {x: left, y: up, scrolled};
  }
  const blocker = points(targets[0]).map(([px, py]) => hits(targets[0], px, py)).find((hit) => hit && hit !== true);
  const top = toTop(targets[0], x, y);
  return {x: top[0], y: top[1], scrolled, covered: blocker ? describe(blocker) : 'nothing visible'};
}

// Scrolls a point of a frame of another origin into view.
function showFrame({index, x, y}) {
  const frame = holder({index});
  if (!frame) return;
  frame.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  const win = DOC.defaultView(frame.ownerDocument);
  const [left, top] = outOf(insideOf(frame), x, y);
  if (left < 0 || top < 0 || left >= win.innerWidth || top >= win.innerHeight) win.scrollBy({left: left - win.innerWidth / 2, top: top - win.innerHeight / 2, behavior: 'instant'});
}

// The element at the end of a path of child indices, 'shadow' and 'frame'.
function nodeAt(path) {
  let node = document;
  for (const step of path) {
    node = step === 'shadow' ? rootOf(node) : step === 'frame' ? node.contentDocument : childrenOf(node)[step];
    if (!node) return null;
  }
  return typeOf(node) === 1 ? node : null;
}

// A selector may name a part of a control: what is meant is the control.
const WHOLE = new Set(['button', 'checkbox', 'link', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'radio', 'switch', 'tab']);
function wholeOf(el) {
  if (el.matches('input, textarea, select, option') || el.isContentEditable) return el;
  for (let node = el; node; node = parentAcross(node)) if (node.localName === 'label' || WHOLE.has(roleOf(node))) return node;
  return el;
}

function idAt({path, firstId}) {
  beginIds(firstId);
  const found = nodeAt(path);
  return found ? {id: idOf(wholeOf(found))} : null;
}

function holderAt({path}) {
  const found = nodeAt(path);
  return found ? holderNumber(found) : null;
}

const fire = (el, ...types) => {
  for (const type of types) el.dispatchEvent(type === 'input' ? new InputEvent(type, {bubbles: true, composed: true}) : new Event(type, {bubbles: true}));
};

function pointer(el, type, extra) {
  const rect = el.getBoundingClientRect();
  const shared = {bubbles: !type.endsWith('enter'), cancelable: !type.endsWith('enter'), composed: true, view: DOC.defaultView(el.ownerDocument),
    clientX: rect.left + rect.width / 2, clientY: rect.top + rect.height / 2, ...extra};
  return el.dispatchEvent(type.startsWith('pointer') ? new PointerEvent(type, {pointerId: 1, isPrimary: true, pointerType: 'mouse', ...shared}) : new MouseEvent(type, shared));
}

function domClick({id, count, button}) {
  const {el, error} = find(id);
  if (error) return {error};
  const code = button === 'right' ? 2 : 0;
  for (let detail = 1; detail <= count; detail++) {
    const held = {button: code, buttons: code === 2 ? 2 : 1, detail};
    pointer(el, 'pointerdown', held);
    if (pointer(el, 'mousedown', held) && code === 0) el.focus?.({preventScroll: true});
    pointer(el, 'pointerup', {...held, buttons: 0});
    pointer(el, 'mouseup', {...held, buttons: 0});
    if (code === 2) pointer(el, 'contextmenu', {...held, buttons: 0});
    else if (el.click) el.click();
    else pointer(el, 'click', {...held, buttons: 0});
    if (detail === 2 && code === 0) pointer(el, 'dblclick', {...held, buttons: 0});
  }
  return {};
}

function domHover({id}) {
  const {el, error} = find(id);
  if (error) return {error};
  for (const type of ['pointerover', 'pointerenter', 'mouseover', 'mouseenter', 'pointermove', 'mousemove']) pointer(el, type, {});
  return {};
}

const EDITORS = '.monaco-editor, .CodeMirror, .ace_editor, .cm-editor';
const isEditable = (el) => el.isContentEditable || textField(el) || VALUE_TYPES.has(el.type);
const textField = (el) => el.localName === 'textarea' || (el.localName === 'input' && TEXT_TYPES.has(el.type));

// The field that a named element stands for: a label's control, the editor around a paragraph, the only field in a
// wrapper.
function fieldOf(el) {
  if (el.localName === 'label' && el.control) return el.control;
  if (el.matches('input, textarea, select')) return el;
  if (el.isContentEditable) {
    for (let up = parentOf(el); up?.isContentEditable && tagOf(up) !== 'form'; up = parentOf(el)) el = up;
    return el;
  }
  const inner = [...el.querySelectorAll('input:not([type=hidden]), textarea, [contenteditable]:not([contenteditable=false])'),
    ...(rootOf(el) ? rootOf(el).querySelectorAll('input:not([type=hidden]), textarea') : [])];
  return inner.length === 1 ? inner[0] : el;
}

function show(el) { bring(el, 'nearest'); }

// Why a field can't be written to, or null.
function refusal(el) {
  if (!drawn(el)) return {error: 'hidden'};
  if (disabled(el)) return {error: 'disabled'};
  const bar = barred(el);
  if (bar) return {error: bar};
  if ((el.readOnly && (textField(el) || VALUE_TYPES.has(el.type))) || ariaOf(el, 'readonly')) return {error: 'readonly'};
  return null;
}

// Why a field can't be written to, or null. Some are read-only until they have the focus, against passwords' managers.
function refusalUnlessFocused(el) {
  const refused = refusal(el);
  if (refused?.error !== 'readonly') return refused;
  show(el);
  el.focus();
  return refusal(el);
}

// The focus is somewhere else than in the field that was just focused: who has it?
function moved() {
  const focused = focusedElement();
  const none = !focused || focused === DOC.body(focused.ownerDocument);
  return {error: 'moved', what: none ? 'nothing' : holderName(focused)};
}

const holdsFocus = (el) => DOC.hasFocus(el.ownerDocument) && isInside(focusedElement() || DOC.documentElement(el.ownerDocument), el);

function setValue(el, text) {
  const before = el.value;
  el.value = text;
  const same = el.type === 'color' ? el.value.toLowerCase() === text.toLowerCase() : el.type === 'range' ? Number(el.value) === Number(text) && text !== '' : el.value !== '' || text === '';
  if (!same) {
    el.value = before;
    if (el.type === 'range') return {error: 'number', min: el.min || '0', max: el.max || '100', step: el.step};
    return {error: 'format', type: el.type};
  }
  const set = el.value;
  fire(el, 'input', 'change');
  return {how: 'done', ...(el.value === set ? {} : {reverted: el.value}), ...unaccepted(el)};
}

// What the browser itself has against a field's value, in its words.
const OBJECTIONS = ['rangeUnderflow', 'rangeOverflow', 'stepMismatch', 'patternMismatch', 'typeMismatch', 'tooShort', 'badInput'];
const unaccepted = (el) => el.validity && OBJECTIONS.some((one) => el.validity[one]) ? {objection: el.validationMessage + (el.validity.patternMismatch && el.title && !el.validationMessage.includes(el.title) ? ' ' + el.title : '')} : {};

const rows = (text) => text.replace(FILLERS, '').replace(/\u00a0/g, ' ').split(/\r?\n/).map((row) => row.trimEnd()).filter(Boolean).join('\n');

// What stands in an editor after `text` was written into it: `shown` if that is another text.
function written({id, text}) {
  const found = find(id);
  if (found.error) return {};  // the page has replaced it
  const now = editorText(fieldOf(found.el));
  return now === null || rows(now) === rows(text) ? {} : {shown: now};
}

// The whole text of an editor: what it copies when all is selected, for it may draw a part only; else its own text. Null
// if that can't be known.
function editorText(el) {
  const focused = focusedElement() || el;
  if (el.closest(EDITORS)) {
    const clipboard = new DataTransfer();
    const copied = !focused.dispatchEvent(new ClipboardEvent('copy', {bubbles: true, cancelable: true, composed: true, clipboardData: clipboard}));
    return copied ? clipboard.getData('text/plain') : null;
  }
  return el.isContentEditable ? el.innerText : null;
}

// Pastes a text over what is selected, in the editor that has the focus. Returns whether it took it.
function paste({text}) {
  const focused = focusedElement();
  if (!focused) return {taken: false};
  const clipboardData = new DataTransfer();
  clipboardData.setData('text/plain', text);
  return {taken: !focused.dispatchEvent(new ClipboardEvent('paste', {bubbles: true, cancelable: true, composed: true, clipboardData}))};
}

// Does the editor hold code, where each line break would indent the next line?
const isCode = (el) => el.closest(EDITORS) !== null || getComputedStyle(el).whiteSpace === 'pre';

const LONG_TEXT = 5000;  // characters from which on the browser takes seconds to insert them into a text area

// Writes lines over what is selected in an editable element, all at once.
function insertLines({lines}) {
  const html = lines.map((line) => line.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/^ | (?= )| $/g, '&nbsp;').replace(/\t/g, '&#9;')).join('<br>');
  focusedElement()?.ownerDocument.execCommand('insertHTML', false, html);
}

// Prepares a field for its text: focuses it and selects its content; sets picker-like inputs at once. With a number, the
// next pass reads back what stands in a text field then.
function prepareFill({id, text, number}) {
  const {value, ...ready} = readyToFill(id, text);
  const before = {edition: edition(), value};
  readLater(value === undefined ? 0 : number, id, 'fill', () => filled(id, text, before));
  if (number && ready.how === 'text') guard(fieldOf(find(id).el), 'beforeinput');
  if (ready.how === 'done' && !ready.reverted) {
    const el = fieldOf(find(id).el);
    const set = el.value;
    readLater(number, id, 'set', () => el.value === set ? {} : {reverted: el.value});
  }
  return ready;
}

function readyToFill(id, text) {
  const found = find(id);
  if (found.error) return found;
  const el = fieldOf(found.el);
  const kind = roleOf(el);
  const refused = refusalUnlessFocused(el);
  const byLabel = refused?.error === 'hidden' && (el.type === 'checkbox' || el.type === 'radio') && labelsOf(el).some(drawn);
  if (refused && !byLabel) return refused;
  show(el);
  if (el.localName === 'select') return {how: 'option'};
  if (el.localName === 'input' && (el.type === 'checkbox' || el.type === 'radio')) return {how: 'check', kind, checked: el.checked};
  if (['checkbox', 'radio', 'switch', 'menuitemcheckbox', 'menuitemradio'].includes(kind)) return {how: 'check', kind, checked: ariaOf(el, 'checked')};
  if (el.localName === 'input' && el.type === 'file') return {error: 'file'};
  if (el.localName === 'input' && VALUE_TYPES.has(el.type)) {
    el.focus();
    return setValue(el, text.trim());
  }
  if (textField(el)) {
    if (el.type === 'number' && text.trim() !== '' && !/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text.trim())) return {error: 'number', min: el.min, max: el.max, step: el.step === 'any' ? '' : el.step};
    if (el.maxLength >= 0 && text.length > el.maxLength) return {error: 'long', limit: el.maxLength, length: text.length};
    el.focus();
    if (!holdsFocus(el)) return moved();
    if (el.closest(EDITORS)) return {how: 'editor', empty: false, code: true};
    if (el.localName === 'textarea' && text.length > LONG_TEXT) {
      const value = el.value;
      el.setRangeText(text, 0, value.length, 'end');
      fire(el, 'input');
      return {how: 'set', value};
    }
    el.select();
    return {how: 'text', empty: el.value === '', value: el.value};
  }
  if (el.isContentEditable) {
    el.focus();
    if (!holdsFocus(el)) return moved();
    DOC.getSelection(el.ownerDocument).selectAllChildren(el);
    return {how: 'editor', empty: false, code: isCode(el)};
  }
  return {error: kind === 'slider' || kind === 'spinbutton' ? 'stepped' : 'kind', kind};
}

// What is pressed, not typed into.
const PRESSED = new Set([...WHOLE, 'summary', 'treeitem']);

// Is the element ready to be typed into? With `take` it is focused, with the caret after its content. With a number, the
// next pass reads back what stands there then.
function prepareType({id, take, text, number, was, again}) {
  const {value, ...ready} = readyToType(id, take, text, was, again);
  const before = {edition: edition(), value: was === '' ? '' : value};  // what has come with the focus is a mask
  readLater(ready.focused ? number : 0, id, 'type', () => typed(id, text, before));
  if (ready.focused && isEditable(fieldOf(find(id).el))) guard(fieldOf(find(id).el), 'keydown');
  return {...ready, blank: value === ''};
}

const takesKeys = (el) => !!el && el !== DOC.body(el.ownerDocument) && !PRESSED.has(roleOf(el));

// Is a text a mask with blanks, or one that has come with the focus?
const isMask = (text, was) => text !== '' && (was === '' || text.includes('_') && !letters(text));

function readyToType(id, take, text, was, again) {
  const found = find(id);
  if (found.error) return found;
  const el = fieldOf(found.el);
  const refused = refusalUnlessFocused(el);
  if (refused) return refused;
  show(el);
  if (el.localName === 'select') return {how: 'done', ...selectNative(el, [text.trim()])};
  if (roleOf(el) === 'slider' && el.localName !== 'input') return {error: 'stepped', kind: 'slider'};
  if (el.localName === 'input' && VALUE_TYPES.has(el.type)) {  // whose parts take keys in another order, or none
    el.focus();
    return setValue(el, text.trim());
  }
  if (el.localName === 'input' && el.type === 'file') return {error: 'file'};
  if (!textField(el) && !el.isContentEditable && PRESSED.has(roleOf(el))) return {error: 'kind', kind: roleOf(el)};
  const value = heldBy(el);
  if (!take) return {focused: holdsFocus(el), value, parts: el.maxLength === 1};
  if (!isEditable(el) && !holdsFocus(el) && takesKeys(focusedElement())) return {focused: true, value};  // a sheet around the cell
  if (!holdsFocus(el)) el.focus();
  if (!holdsFocus(el)) return moved();
  if (was !== undefined && textField(el) && isMask(el.value, was)) {  // which puts the caret where it is to be, some later
    if (!again) return {focused: true, value, masked: true};
    if (was === '' || el.value[el.selectionStart] === '_') return {focused: true, value};
  }
  if (el.localName === 'textarea' || el.localName === 'input') {
    try { el.setSelectionRange(el.value.length, el.value.length); } catch { /* a type without selection */ }
  } else if (el.isContentEditable) {
    const selection = DOC.getSelection(el.ownerDocument);
    selection.selectAllChildren(el);
    selection.collapseToEnd();
  }
  return {focused: true, value};
}

// Has the next pass look whether a checkbox is as it was to be.
function checkLater({id, checked, number}) {
  const {el: named, error} = find(id);
  if (error) return {};
  const el = fieldOf(named);
  const now = () => el.localName === 'input' ? el.checked : ariaOf(el, 'checked');
  readLater(number, id, 'set', () => !el.isConnected || now() === checked ? {} : {reverted: String(now())});
  return {};
}

const COMBOBOXES = new Set(['combobox', 'listbox']);

// Is it a list, or does it open one? A native one, one of ARIA's, or a field with suggestions.
const isList = (el) => optionsOf(el).length > 0 || el.localName === 'select' || COMBOBOXES.has(roleOf(el)) || el.getAttribute('aria-haspopup') === 'listbox' || ['list', 'both'].includes(el.getAttribute('aria-autocomplete'));

// The list that a named element stands for: itself, or the one in the field that it wraps.
const listFor = (named) => isList(named) ? named : fieldOf(named);

// All that match in a document and in the shadow roots in it.
function everywhere(doc, selector) {
  const within = (root) => Array.from(root.querySelectorAll('*')).map(rootOf).filter(Boolean);
  const roots = Array.from(DOC.querySelectorAll(doc, '*')).map(rootOf).filter(Boolean);
  for (const root of roots) roots.push(...within(root));
  return [...DOC.querySelectorAll(doc, selector), ...roots.flatMap((root) => Array.from(root.querySelectorAll(selector)))];
}

// Is it out where it can be seen, and not kept transparent or aside until its list opens?
const isOut = (el) => el.checkVisibility({opacityProperty: true}) && rectOf(el).right > 0;

// The options that are shown for a custom list: in the element itself or slotted into it, in what it controls, or in
// whatever list is open, which may be anywhere in the page.
function shownOptions(el) {
  const of = (list) => [...list.querySelectorAll('[role=option]'), ...Array.from(list.querySelectorAll('slot')).flatMap((slot) => slot.assignedElements()).filter((one) => one.role === 'option')].filter((option) => drawn(option) && sized(option) && isOut(option));
  const root = rootOf(el);
  const near = [el, ...byIdRef(el, 'aria-controls'), ...byIdRef(el, 'aria-owns'), ...(root ? [root] : [])];
  for (const list of near) {
    const found = of(list);
    if (found.length) return found;
  }
  if (isShut(el)) return [];
  const open = everywhere(el.ownerDocument, '[role=listbox]').filter((list) => list !== el && drawn(list)).map(of).filter((found) => found.length);
  return open.length === 1 ? open[0] : [];
}

// What can be clicked and says just this: an option of a list that doesn't say what its options are.
function lineThatSays(el, text) {
  const same = (node) => squeeze(node.textContent) === text && drawn(node) && sized(node) && !isInside(el, node) && !isInside(node, el);
  const found = everywhere(el.ownerDocument, 'div, li, span, a, p, td').filter((node) => same(node) && (getComputedStyle(node).cursor === 'pointer' || listens(node)));
  const outermost = found.filter((node) => !found.some((other) => other !== node && other.contains(node)));
  return outermost.length === 1 ? outermost[0] : null;
}

const optionText = (o) => squeeze(o.getAttribute('aria-label') || o.innerText);

// A name as it is compared: in any case, with any dashes, quotes and spaces, without quotes around it or a colon behind it.
const SINGLE_QUOTES = /[\u2018-\u201b\u02bc\u0060\u00b4]/g, DOUBLE_QUOTES = /[\u201c-\u201f\u00ab\u00bb]/g, DASHES = / ?[-\u2010-\u2015\u2212] ?/g;
function spelled(text) {
  const plain = squeeze(text.replace(SINGLE_QUOTES, "'").replace(DOUBLE_QUOTES, '"').replace(FILLERS, '').normalize('NFKC')).toLowerCase();
  return plain.replace(DASHES, '-').replace(/ ?:$/, '').replace(/^(["'])(.+)\1$/, '$2').trim();
}

// The option that is meant: by its text, its value, or its text in another spelling.
function optionMeant(found, wanted, textOf, valueOfOption) {
  const text = squeeze(wanted), name = spelled(wanted);
  for (const fits of [(o) => textOf(o) === text, (o) => clip(textOf(o), LONGEST_LABEL) === text, (o) => valueOfOption(o) === wanted, (o) => name && spelled(textOf(o)) === name]) {
    const all = found.filter(fits);
    if (all.length) return all;
  }
  return [];
}

// The options that begin with these whole words or numbers, where none is just these.
function beginningWith(found, wanted, textOf) {
  const name = spelled(wanted), goesOn = /\d$/.test(name) ? /^[.,:]?[\p{L}\p{N}]/u : /^[\p{L}\p{N}]/u;
  return name ? found.filter((o) => spelled(textOf(o)).startsWith(name) && !goesOn.test(spelled(textOf(o)).slice(name.length))) : [];
}

// Do the options of a list that doesn't say so look as if several can be chosen?
const takesSeveral = (shown) => shown.some((o) => o.hasAttribute('aria-checked') || o.querySelector('[type=checkbox], [role=checkbox]')) || shown.filter((o) => ariaOf(o, 'selected')).length > 1;

// Chooses options in a native list. Else says what is to be done: `fill` a field that has suggestions, `unselect` an option
// of a custom list that is chosen and not wanted, or take its options one by one (`custom`, see `optionIn`).
function select({id, options, number}) {
  const {el: named, error} = find(id);
  if (error) return {error};
  const el = listFor(named);
  const native = el.localName === 'select' && el.namespaceURI === HTML;
  const list = native || isList(el) || el.hasAttribute('aria-expanded');
  const isText = !list && roleOf(el) === 'textbox' && options.length === 1;
  const refused = refusal(el);
  if (refused && refused.error !== 'readonly' || refused && !list && !isText) return refused;
  if (isText) return mark(el, options[0]);
  if (!list) return {error: 'kind', kind: roleOf(el)};
  if (native) {
    const chosen = selectNative(el, options);
    const values = Array.from(el.selectedOptions, (option) => option.value);
    if (chosen.done && !chosen.reverted) readLater(number, id, 'set', () => revertedFrom(el, values));
    return chosen;
  }
  if (optionsOf(el).length) {
    if (options.length > 1) return {error: 'single'};
    const [option] = options, all = optionsOf(el), exact = optionMeant(all, option, textOfOption, (o) => o.value);
    const fitting = exact.length ? exact : beginningWith(all, option, textOfOption);
    const values = Array.from(new Set(fitting.map((o) => o.value)));
    if (values.length > 1) return {error: 'ambiguous', option, options: values.slice(0, 20)};
    return values.length ? {fill: values[0], at: idOf(el)} : {error: 'option', option, options: all.slice(0, 20).map(textOfOption)};
  }
  const shown = isShut(el) ? [] : shownOptions(el);
  const multiple = shown.some((option) => option.closest('[aria-multiselectable=true]')) || ariaOf(el, 'multiselectable');
  if (shown.length && options.length > 1 && !multiple) {
    if (!takesSeveral(shown)) return {error: 'several', options: options.map((option) => optionMeant(shown, option, optionText, (o) => o.dataset.value)[0]).filter(Boolean).map((o) => `[${idOf(o)}]`)};
  }
  const isWanted = (o) => options.some((option) => optionMeant([o], option, optionText, (one) => one.dataset.value).length);
  const unwanted = multiple && roleOf(el) === 'listbox' ? shown.find((o) => ariaOf(o, 'selected') && !isWanted(o)) : null;
  return unwanted ? {unselect: idOf(unwanted)} : {custom: true};
}

// Does a list say that it is closed? Options in it are what is chosen.
const isShut = (el) => el.getAttribute('aria-expanded') === 'false' && !hasOpened(el);

// What chooses one option of a custom list: `click`, or `done` if it is chosen. Else `options` are those that are shown, and
// `text` says whether the list can be searched by typing, and `opener` opens it if it is closed and they are those chosen before.
// With `begins`, an option may begin with the text.
function optionIn({id, option, begins}) {
  const {el: named, error} = find(id);
  if (error) return {error};
  const el = listFor(named);
  const shown = shownOptions(el);
  const exact = optionMeant(shown, option, optionText, (o) => o.dataset.value);
  const fitting = exact.length || !begins ? exact : beginningWith(shown, option, optionText);
  const [meant] = fitting;
  if (fitting.length > 1 && !fitting.some((o) => o !== meant && isInside(o, meant))) {
    const differ = new Set(fitting.map(optionText)).size > 1;
    return {error: 'alike', option, options: fitting.slice(0, 20).map((o) => differ ? `[${idOf(o)}] ${quoted(optionText(o))}` : `[${idOf(o)}]`)};
  }
  if (meant) {
    if (disabled(meant)) return {error: 'disabledOption', option};
    const multiple = meant.closest('[aria-multiselectable=true]') !== null;
    return (multiple || isShut(el)) && ariaOf(meant, 'selected') ? {done: true} : {click: idOf(meant)};
  }
  const field = textField(el) ? el : fieldOf(el);
  const line = lineThatSays(el, squeeze(option));
  if (line) return {click: idOf(line)};
  return {kind: roleOf(el), options: shown.slice(0, 20).map(optionText), count: shown.length, text: textField(field) && !field.readOnly, at: idOf(field), shut: !shown.length && el.getAttribute('aria-expanded') === 'false', opener: shown.length && isShut(el) ? idOf(textField(field) && drawn(field) ? field : el) : null};
}

// Which of these options a list that is still shown does not show as chosen, though it shows that of options.
function notChosen({id, options}) {
  const {el: named} = find(id);
  const el = named && listFor(named);
  const shown = el ? shownOptions(el) : [];
  const said = el && textField(el) ? el.value : '';  // in a list of suggestions, what is selected is what is pointed at
  const isChosen = (o) => ['selected', 'checked'].some((state) => ariaOf(o, state)) || said !== '' && squeeze(said).includes(optionText(o));
  if (!shown.some((o) => o.hasAttribute('aria-selected') || o.hasAttribute('aria-checked'))) return {missing: []};
  const meant = options.map((option) => [option, (optionMeant(shown, option, optionText, (o) => o.dataset.value).concat(beginningWith(shown, option, optionText)))[0]]);
  return {missing: meant.filter(([, o]) => o && !isChosen(o)).map(([option, o]) => ({option, id: idOf(o)}))};
}

// Which of the options that were chosen before does the last one stand in the place of? What is around the list has `said` them,
// and says the last one now.
const AROUND = 4;
function replaced({id, option, said}) {
  const {el} = find(id), list = el && listFor(el);
  if (!list || shownOptions(list).some((o) => o.closest('[aria-multiselectable=true]'))) return {said: [], lost: []};
  let box = list;
  for (let up = 0; up < AROUND && parentAcross(box) !== DOC.body(list.ownerDocument); up++) box = parentAcross(box) || box;
  const isOffered = (o) => o && !ariaOf(o, 'selected');
  const texts = Array.from(allIn(box, 'input'), (field) => field.value), walker = walkerOf(document, box, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const holder = parentOf(node);
    if (holder && isVisible(holder) && !isOffered(closestTo(holder, 'option, [role=option]'))) texts.push(node.data);
  }
  const around = spelled(texts.join(' ')), says = (wanted) => asWords(literal(spelled(wanted))).test(around);
  return {said: [...said, option].filter(says), lost: says(option) ? said.filter((one) => !says(one)) : []};
}

// Scrolls a custom list to its `start` or `end`, or by a page; returns whether there is more of it.
function turnList({id, to}) {
  const {el: named} = find(id);
  const el = named && listFor(named);
  const [option] = el ? shownOptions(el) : [];
  let list = option ? parentAcross(option) : null;
  while (list && !(list.scrollHeight > list.clientHeight + 1 && /auto|scroll|overlay/.test(getComputedStyle(list).overflowY))) list = parentAcross(list);
  if (!list || list !== el && isInside(el, list)) return {moved: false};  // what scrolls is the page
  const before = list.scrollTop;
  list.scrollTop = to === 'start' ? 0 : to === 'end' ? list.scrollHeight : before + list.clientHeight * 0.9;
  return {moved: to === 'start' || list.scrollTop !== before};
}

// What a native list shows as chosen, if the page has made that something else than these values; it may draw the options anew.
function revertedFrom(el, values) {
  const now = Array.from(el.selectedOptions, (option) => option.value);
  const same = !el.isConnected || now.length === new Set(values).size && now.every((one) => values.includes(one));
  return same ? {} : {reverted: Array.from(el.selectedOptions, textOfOption).join(', ')};
}

function selectNative(el, options) {
  const all = optionsOf(el), label = labelsIn(el);
  const wanted = [];
  for (const option of options) {
    const meant = optionMeant(all, option, label, (o) => o.value);
    const named = all.filter((o) => textOfOption(o) === squeeze(option));
    const alike = [meant, named, beginningWith(all, option, label)].find((some) => some.length);
    if (!alike) return {error: 'option', option, options: all.slice(0, 20).map(label)};
    if (alike !== meant && alike.length > 1) return {error: 'ambiguous', option, options: alike.slice(0, 20).map(label)};
    const tells = new Set(alike.map(label)).size > 1 ? label : (o) => o.value;
    if (new Set(alike.map((o) => o.value)).size > 1) return {error: 'ambiguous', option, options: alike.slice(0, 20).map(tells)};
    const [match] = alike;
    if (match.disabled || groupOf(match)?.disabled) return {error: 'disabledOption', option};
    wanted.push(match);
  }
  if (wanted.length > 1 && !el.multiple) return {error: 'single'};
  show(el);
  el.focus();
  for (const option of el.options) if (option.selected !== wanted.includes(option)) option.selected = wanted.includes(option);
  fire(el, 'input', 'change');
  return {done: true, ...revertedFrom(el, wanted.map((option) => option.value))};
}

const literal = (text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
const asWords = (pattern) => new RegExp(`(?<![\\p{L}\\p{N}])${pattern}(?![\\p{L}\\p{N}])`, 'u');

// Selects a text in a field or editor, as one does with the mouse to copy or format it, preferring whole words. An editor
// without the focus is only `focused`: it takes that in before a selection.
function mark(el, text) {
  const field = typeof el.value === 'string';
  const parts = [];
  if (!field) for (let walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT); walker.nextNode();) parts.push(walker.currentNode);
  const all = field ? el.value : parts.map((node) => node.data).join('');
  const pattern = Array.from(text, (one) => one === ' ' ? '[ \\u00a0]' : literal(one)).join(FILLERS.source + '*');
  const found = asWords(pattern).exec(all) || new RegExp(pattern, 'u').exec(all);
  if (!found || !text) return {error: 'noText', text};
  const start = found.index, end = start + found[0].length;
  show(el);
  const focuses = !holdsFocus(el);
  el.focus();
  if (focuses && !field) return {focused: true};
  if (field) {
    try { el.setSelectionRange(start, end); } catch { return {error: 'kind', kind: `field of type ${el.type}`}; }
    return {marked: true};
  }
  const place = (offset, last) => {
    for (const node of parts) {
      if (offset < node.length || last && offset === node.length) return [node, offset];
      offset -= node.length;
    }
    return [el, el.childNodes.length];
  };
  DOC.getSelection(el.ownerDocument).setBaseAndExtent(...place(start, false), ...place(end, true));
  return {marked: true, editor: true};
}

// The file input that an element is, labels or contains, if there is one.
function fileInput({id}) {
  const {el, error} = find(id);
  if (error) return {error};
  const isFile = (node) => node?.localName === 'input' && node.type === 'file';
  const inner = el.querySelectorAll('input[type=file]');
  const input = isFile(el) ? el : isFile(el.control) ? el.control : inner.length === 1 ? inner[0] : null;
  if (!input) return disabled(el) ? {error: 'disabled'} : {};
  if (disabled(input)) return {error: 'disabled'};
  if (input.webkitdirectory) return {error: 'folder'};
  return {input: idOf(input), multiple: input.multiple};
}

// Does it show what the document does not say, or can its text be edited, where marking it is what dragging is for? Else is
// text `marked`, as a drag does where nothing can be dragged?
function draws({id}) {
  const {el, error} = find(id);
  if (error) return {draws: true};
  const picture = el.matches('canvas, video, object, embed, iframe, input[type=range]') || el.querySelector('canvas, video, object, embed, iframe') !== null;
  const marked = markedText(focusedElement()) !== '';
  return {draws: picture || marked && isEditable(el), marked};
}

// What the page says and shows as markup, but for empty attributes, which feedback on a press leaves behind; null where parts
// of it have documents or trees of their own.
function pageText() {
  return roots().length > 1 ? null : DOC.documentElement(document).outerHTML.replace(/ (class|style)=""/g, '');
}

// Marks no text any more: the next press would drag it.
const unmark = () => DOC.getSelection(focusedElement()?.ownerDocument || document)?.removeAllRanges();

function clearFiles({id}) {
  const {el, error} = find(id);
  if (error) return {error};
  if (!el.files.length) return {};
  el.value = '';
  fire(el, 'input', 'change');
  return {};
}

// What holds items, and may have the focus in their place.
const CONTAINERS = new Set(['combobox', 'grid', 'listbox', 'menu', 'menubar', 'radiogroup', 'tablist', 'tree', 'treegrid']);

// Has the focus what stands for an item: something that names it as its active one or, if that was `clicked`, what holds it?
function isHeldBy(el, focused, clicked) {
  if (byIdRef(focused, 'aria-activedescendant').some((active) => isInside(active, el))) return true;
  return clicked && CONTAINERS.has(roleOf(focused)) && [focused, ...byIdRef(focused, 'aria-controls'), ...byIdRef(focused, 'aria-owns')].some((list) => isInside(el, list));
}

// Focuses an element for a key. `clicked`: it has been clicked for that.
function focus({id, clicked}) {
  const {el, error} = find(id);
  if (error) return {error};
  const bar = barred(el);
  if (bar) return {error: bar};
  if (disabled(el)) return {error: 'disabled'};
  show(el);
  const has = () => {
    const focused = focusedElement() || DOC.documentElement(document);
    return isInside(focused, el) || isHeldBy(el, focused, clicked);
  };
  if (!has()) (el.localName === 'label' && el.control ? el.control : el).focus();
  const focused = focusedElement();
  const elsewhere = focused && focused !== DOC.body(focused.ownerDocument) ? {elsewhere: holderName(focused)} : {};
  return {focused: has() || (el.localName === 'label' && focused === el.control), ...elsewhere};
}

// Did the page keep the key that is pressed next from the browser? Asked before and after.
let keyKept = false;
function hearKey() {
  keyKept = false;
  const focused = focusedElement();
  const win = focused ? DOC.defaultView(focused.ownerDocument) : window;
  const hear = (event) => { if (!MODIFIERS.has(event.key)) { keyKept = event.defaultPrevented; win.removeEventListener('keydown', hear); } };
  win.addEventListener('keydown', hear);
}
const MODIFIERS = new Set(['Alt', 'Control', 'Meta', 'Shift']);
const keptKey = () => keyKept;

function scrollableAt(el) {
  for (let node = el; node; node = parentAcross(node)) {
    const style = getComputedStyle(node);
    const y = node.scrollHeight > node.clientHeight && /auto|scroll|overlay/.test(style.overflowY);
    const x = node.scrollWidth > node.clientWidth && /auto|scroll|overlay/.test(style.overflowX);
    if (y || x || node.localName === 'textarea') return node;
  }
  return null;
}

// Does the viewport scroll, for a person too? The style that says so is the root's, or the body's where that says nothing.
function viewportScrolls(root) {
  const style = getComputedStyle(DOC.documentElement(document)), body = DOC.body(document);
  const {overflowX, overflowY} = body && style.overflow === 'visible' ? getComputedStyle(body) : style;
  const free = (overflow) => overflow !== 'hidden' && overflow !== 'clip';
  return root.scrollHeight > root.clientHeight && free(overflowY) || root.scrollWidth > root.clientWidth && free(overflowX);
}

function scroll({id, dx, dy}) {
  let target = null;
  if (id !== null) {
    const {el, error} = find(id);
    if (error) return {error};
    if (!drawn(el)) return {error: 'hidden'};
    noteScrolled(el);
    if (!dx && !dy) { bring(el, 'center'); return {moved: true}; }
    target = scrollableAt(el) || DOC.scrollingElement(el.ownerDocument);
  } else {
    const root = DOC.scrollingElement(document);
    target = root && viewportScrolls(root) ? root : scrollableAt(deepest(document, innerWidth / 2, innerHeight / 2));
    if (!target) return {moved: false};
    noteScrolled(target);
  }
  const before = target.scrollLeft + ',' + target.scrollTop;
  target.scrollBy({left: dx, top: dy, behavior: 'instant'});
  return {moved: before !== target.scrollLeft + ',' + target.scrollTop};
}

// How far what lies at a point is scrolled, and which edition the page is; empty where a picture or a frame may scroll by
// itself.
function scrolledTo({x, y}) {
  const at = deepest(document, x, y);
  if (!at || at.closest('canvas, video, object, embed, iframe')) return '';
  const offsets = [];
  for (let node = at; node; node = parentAcross(node)) offsets.push(node.scrollLeft, node.scrollTop);
  return edition() + offsets.filter(Boolean);
}

// Is there a loading indicator in view, or a text that says so?
function saysLoading() {
  if (candidates().some(isLoading)) return true;
  for (const root of roots()) {
    const walker = walkerOf(document, root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) if (SAYS_LOADING.test(node.data) && parentOf(node) && isLoading(parentOf(node))) return true;
  }
  return false;
}
