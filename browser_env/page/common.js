// Shared by the other parts: element ids, walking across frames and shadow roots, hit-testing.

const SVG = 'http://www.w3.org/2000/svg';
const TEXT_TYPES = new Set('email number password search tel text url'.split(' '));
const VALUE_TYPES = new Set('color date datetime-local month range time week'.split(' '));
const SKIP = new Set('SCRIPT STYLE NOSCRIPT TEMPLATE HEAD META LINK TITLE BASE SOURCE TRACK PARAM DATALIST'.split(' '));
const KEPT_IDS = 20000;

// Elements are held strongly: otherwise this world's wrapper of an element may be replaced by another one, and its id
// with it. Elements that have left the document are released when there are many.
let ids = new WeakMap();
const byId = new Map();
let nextId = 1;
let purgeAt = KEPT_IDS;
const closedRoots = new WeakMap();
let anyClosed = false;

const LONGEST = 1e6;  // characters of a text that are looked at; what is shown of any is shorter
const squeeze = (text) => (text.length > LONGEST ? text.slice(0, LONGEST) : text).replace(/\u200b|(?<=\p{L})\u00ad(?=\p{L})/gu, '').replace(/[\s\u00a0]+/g, ' ').trim();
// Characters without a width that editors put beside the caret or in empty lines, and spaces that are to stay at the end of
// a line or beside another.
const FILLERS = /[\u200b\u2060\ufeff]/g, KEPT_SPACES = /(?<=^|\s)\u00a0|\u00a0(?=\s|$)/gm;
const withoutFillers = (text) => text.replace(FILLERS, '').replace(KEPT_SPACES, ' ');
const keepsSpace = (style) => style.whiteSpaceCollapse === 'preserve' || style.whiteSpaceCollapse === 'break-spaces';
const clip = (text, limit) => text.length > limit ? text.slice(0, limit - 1) + '\u2026' : text;
// A field's text is clipped in the middle: typing continues at its end.
const clipMiddle = (text, limit) => text.length > limit ? clip(text, limit * 3 / 4) + text.slice(text.length - limit / 4) : text;
const byIdRef = (el, attribute) => {
  const value = attributeOf(el, attribute);
  if (!value) return [];
  const root = treeOf(el);
  return value.split(/\s+/).filter(Boolean).map((id) => BY_ID.get(typeOf(root))?.(root, id)).filter(Boolean);
};
const BY_ID = new Map([[9, method(Document.prototype, 'getElementById')], [11, method(DocumentFragment.prototype, 'getElementById')]]);
const rootOf = (el) => shadowOf(el) || (anyClosed && closedRoots.get(el)) || null;

const HTML = 'http://www.w3.org/1999/xhtml';
const ONLY_HTML = new Set(('area audio button canvas details dialog fieldset figure form frame iframe img input label li map ' +
  'meter object optgroup option output progress select slot summary table template textarea video').split(' '));

// Is it one of SVG's, MathML's or nobody's elements that has only the name of an HTML element?
const isForeign = (el) => el.namespaceURI !== HTML && ONLY_HTML.has(el.localName);
const isSlot = (el) => tagOf(el) === 'slot' && el.namespaceURI === HTML;

// Faults of this script in single elements, which cost these alone: a page can be stranger than we thought.
const MOST_FAULTS = 20;
let faults = [];
function noteFault(el, error) {
  if (faults.length < MOST_FAULTS) faults.push(`${describe(el)}: ${String(error).slice(0, 200)}`);
}

function idOf(el) {
  let id = ids.get(el);
  if (id === undefined) {
    id = nextId++;
    ids.set(el, id);
    byId.set(id, el);
  }
  return id;
}

// Ids continue from the episode's other documents; callbacks waiting for that are run.
const onIds = [];
function beginIds(first) {
  nextId = Math.max(nextId, first);
  for (const told of onIds.splice(0)) Promise.resolve().then(told);
}

// Calls a method that may give out ids: they continue from those of the episode's other documents, as those there will
// from `nextId`.
function withIds({name, firstId, ...what}) {
  beginIds(firstId);
  return {...this[name](what), nextId};
}

function purge() {
  if (byId.size < purgeAt) return;
  for (const [id, el] of byId) if (!el.isConnected) byId.delete(id);
  purgeAt = byId.size + KEPT_IDS;
}

// Does the page's main world say yes to a question about an element, a document or a window? A listener of ours, installed
// there before any script of the page, answers by cancelling the event (listener_probe.js, timers.js).
const PROBE_EVENT = {cancelable: true, composed: true};
const answers = (target, kind) => !dispatch(target, new Event(probe + kind, PROBE_EVENT));

// Does an element listen for clicks; for clicks or the pointer that comes over it; for what is dropped on it? In closed
// shadow roots only its attributes tell.
const hidden = new WeakSet();
const asking = (kind, attributes) => (el) => anyClosed && hidden.has(treeOf(el)) ? attributes.some((name) => attributeOf(el, name) !== null) : answers(el, kind);
const listens = asking('', ['onclick']);
const stirs = asking('-pointer', ['onclick', 'onmouseenter', 'onmouseover', 'onpointerenter', 'onpointerover']);
const drops = asking('-drop', ['ondrop', 'ondragover']);

// What a custom element's ElementInternals say, by attribute, and its `validationMessage`; null if it has none. Asked as
// above, of no other elements, and known while this script runs.
const internals = new Map();
function internalsOf(el) {
  if (!tagOf(el).includes('-') || anyClosed && hidden.has(treeOf(el))) return null;
  if (!internals.size) Promise.resolve().then(() => internals.clear());
  if (!internals.has(el)) {
    const answer = new Text();
    dispatch(el, new MouseEvent(probe + '-internals', {...PROBE_EVENT, relatedTarget: answer}));
    const told = answer.data ? Object.entries(JSON.parse(answer.data)) : null;
    internals.set(el, told && Object.fromEntries(told.map(([name, value]) => [name.replace(/^aria(.+)/, (_, rest) => 'aria-' + rest.toLowerCase()), value])));
  }
  return internals.get(el);
}
// An attribute that says what an element is: its own, or what its internals say instead. Not for forms.
const semantic = (el, name, tag = el.localName) => el.getAttribute(name) ?? (tag.includes('-') ? internalsOf(el)?.[name] ?? null : null);

// The options of a list, but for those that the page has taken out of it, or of a field with suggestions.
const optionsOf = (el) => el.namespaceURI !== HTML ? [] : el.localName === 'select' ? Array.from(el.options).filter(isInList) : el.localName === 'input' && el.list ? Array.from(el.list.options) : [];
const isInList = (option) => getComputedStyle(option).display !== 'none' && !(groupOf(option) && getComputedStyle(groupOf(option)).display === 'none');
const groupOf = (option) => option.parentElement?.localName === 'optgroup' ? option.parentElement : null;
const textOfOption = (option) => squeeze(option.label || option.value);

// What tells an option's text, with its group's where another option of the list has the same.
function labelsIn(list) {
  const counts = new Map();
  const grouped = list.localName === 'select' && list.querySelector('optgroup') ? optionsOf(list).map(textOfOption) : [];
  for (const text of grouped) counts.set(text, (counts.get(text) || 0) + 1);
  return (option) => {
    const text = textOfOption(option), group = groupOf(option);
    return group && counts.get(text) > 1 ? squeeze(group.label) + ' / ' + text : text;
  };
}

function parentAcross(el) {
  return slotOf(el) || parentOf(el) || treeOf(el).host || null;
}

function isInside(el, ancestor) {
  for (let node = el; node; node = parentAcross(node)) if (node === ancestor) return true;
  return false;
}

function deepest(doc, x, y) {
  let hit = DOC.elementFromPoint(doc, x, y);
  for (let root; hit && (root = rootOf(hit));) {
    const inner = root.elementFromPoint(x, y);
    if (!inner || inner === hit) return slotAt(root, x, y) || hit;  // text that is slotted into it is its host's
    hit = inner;
  }
  return hit;
}

// The element around the slot with text of its host at this point, if there is one.
function slotAt(root, x, y) {
  for (const slot of Array.from(root.querySelectorAll('slot')).filter(isSlot)) {
    for (const node of slot.assignedNodes()) {
      if (node.nodeType !== 3) continue;
      slotted.selectNodeContents(node);
      for (const box of slotted.getClientRects()) if (x >= box.left && x < box.right && y >= box.top && y < box.bottom) return slot;
    }
  }
  return null;
}
const slotted = DOC.createRange(document);

// The modal dialog on top in a document or its shadow roots; null if there is none. Of several it is the last to be
// opened, wherever it stands: what is hit tells, as all others are inert.
function topModal(doc) {
  const shadows = roots().filter((root) => typeOf(root) === 11 && root.ownerDocument === doc);
  const open = [...DOC.querySelectorAll(doc, 'dialog:modal'), ...shadows.flatMap((root) => Array.from(root.querySelectorAll('dialog:modal')))];
  if (!open.length) return null;
  const {innerWidth: w, innerHeight: h} = DOC.defaultView(doc);
  for (const {left, top, width, height} of [new DOMRect(0, 0, w, h), ...open.map(rectOf)]) {
    for (let el = deepest(doc, left + width / 2, top + height / 2); el; el = parentAcross(el)) if (tagOf(el) === 'dialog' && el.matches(':modal')) return el;
  }
  return open.pop() || null;
}

// Does a click at this point of the element's own document reach the element (or what stands for it)?
function reaches(el, x, y) {
  const hit = deepest(el.ownerDocument, x, y);
  if (!hit) return null;
  return isInside(hit, el) || standsFor(hit, el) ? true : hit;
}

const THUMB = 24;  // CSS pixels that a thumb is larger than the control in it, at most

// Is a click on `hit` meant for `el`? On its label, or on the thumb of a slider around an input that is clipped to nothing.
function standsFor(hit, el) {
  if (closestTo(hit, 'label')?.control === el) return true;
  if (el.localName !== 'input' || hit.localName === 'label' || !isInside(el, hit)) return false;
  const inner = rectOf(el), outer = rectOf(hit);
  return outer.width <= inner.width + THUMB && outer.height <= inner.height + THUMB;
}

// The image that an area of an image map lies on.
function imageOf(area) {
  const name = area.closest('map')?.name;
  return name ? area.getRootNode().querySelector(`img[usemap="#${CSS.escape(name)}"]`) : null;
}

// An element's box, even if it has none itself; an image map's area gets its box from the image.
function boxOf(el) {
  if (el.localName !== 'area') {
    const box = rectOf(el);
    if (box.width || box.height || el.getClientRects().length || !el.firstChild) return box;
    const range = DOC.createRange(el.ownerDocument);  // it has no box itself (display: contents), but its content has
    range.selectNodeContents(el);
    return range.getBoundingClientRect();
  }
  const image = imageOf(el);
  if (!image) return el.getBoundingClientRect();
  const box = image.getBoundingClientRect();
  const n = el.coords.split(',').map(Number);
  if (el.shape === 'default' || n.length < 3 || n.some(isNaN)) return box;
  if (el.shape === 'circle') return new DOMRect(box.left + n[0] - n[2], box.top + n[1] - n[2], 2 * n[2], 2 * n[2]);
  const xs = n.filter((_, i) => i % 2 === 0), ys = n.filter((_, i) => i % 2 === 1);
  const x = Math.min(...xs), y = Math.min(...ys);
  return new DOMRect(box.left + x, box.top + y, Math.max(...xs) - x, Math.max(...ys) - y);
}

const FRAMES = new Set(['iframe', 'frame', 'object', 'embed']);

// Does one of these show a document of its own, not a picture or what it contains? An embed doesn't say so by itself.
const showsPage = (el, tag) => tag === 'object' ? el.contentWindow !== null : tag !== 'embed' || /^(text\/x?html|image\/svg.xml|)$/.test(el.type);

const holderOf = (doc) => DOC.defaultView(doc) === window ? null : DOC.defaultView(doc)?.frameElement;

// Where a frame's document lies in the viewport of the document around it: its origin, its scale, and where it is turned,
// the matrix that does both.
function insideOf(frame) {
  const rect = frame.getBoundingClientRect(), style = getComputedStyle(frame);
  const w = frame.offsetWidth, h = frame.offsetHeight;
  const sx = w ? rect.width / w : 1, sy = h ? rect.height / h : 1;
  const left = frame.clientLeft + parseFloat(style.paddingLeft), top = frame.clientTop + parseFloat(style.paddingTop);
  const turn = turnOf(frame);
  if (turn) {  // its corner lies where the box around the turned frame begins with the corner farthest to the left, or top
    turn.e = rect.left - Math.min(0, turn.a * w, turn.c * h, turn.a * w + turn.c * h);
    turn.f = rect.top - Math.min(0, turn.b * w, turn.d * h, turn.b * w + turn.d * h);
    turn.translateSelf(left, top);
  }
  return {x: rect.left + left * sx, y: rect.top + top * sy, sx, sy, turn};
}

// How a frame is turned or mirrored by its own transforms and those around it; null if it isn't. Whether it is is asked
// again after a moment: it is needed for every point in it.
const MOMENT = 50;
const turns = new WeakMap();
function turnOf(frame) {
  const now = performance.now(), known = turns.get(frame);
  if (known && now - known.at < MOMENT && !known.turn) return null;
  const turn = computedTurn(frame);
  turns.set(frame, {at: now, turn});
  return turn;
}
function computedTurn(el) {
  let turn = new DOMMatrix();
  for (let node = el; node; node = parentAcross(node)) {
    const {rotate, scale, transform} = getComputedStyle(node);
    if (rotate === 'none' && scale === 'none' && transform === 'none') continue;
    const own = new DOMMatrix();
    if (/^[-.\de]+deg$/.test(rotate)) own.rotateSelf(parseFloat(rotate));
    if (scale !== 'none') own.scaleSelf(...scale.split(' ').slice(0, 2).map(Number));
    turn = own.multiply(new DOMMatrix(transform)).multiply(turn);
  }
  return turn.is2D && (Math.abs(turn.b) > 1e-6 || Math.abs(turn.c) > 1e-6 || turn.a < 0 || turn.d < 0) ? turn : null;
}

// A point of a frame's document (`insideOf`) in the viewport around it.
const outOf = ({x, y, sx, sy, turn: m}, left, top) => m ? [m.a * left + m.c * top + m.e, m.b * left + m.d * top + m.f] : [x + left * sx, y + top * sy];

// Converts coordinates of the element's viewport to the top document's; frames may be scaled.
function toTop(el, x, y) {
  for (let holder = holderOf(el.ownerDocument); holder; holder = holderOf(holder.ownerDocument)) {
    [x, y] = outOf(insideOf(holder), x, y);
  }
  return [x, y];
}

// What lies over this point of an element's viewport in the documents around its own: an element, null for nothing
// there, or undefined if the point is free.
function overFrames(el, x, y) {
  for (let holder = holderOf(el.ownerDocument); holder; holder = holderOf(holder.ownerDocument)) {
    [x, y] = outOf(insideOf(holder), x, y);
    const over = deepest(holder.ownerDocument, x, y);
    if (over !== holder) return over;
  }
  return undefined;
}

// Does a click at this point of the element's viewport reach it? True, or what is hit instead (null: nothing).
function hits(el, x, y) {
  const hit = reaches(el, x, y);
  if (hit !== true) return hit;
  const over = overFrames(el, x, y);
  return over === undefined ? true : over;
}

function focusedElement() {
  let focused = DOC.activeElement(document);
  for (;;) {
    let inner = null;
    try { inner = (focused && rootOf(focused)?.activeElement) || (focused?.contentDocument && DOC.activeElement(focused.contentDocument)); } catch { /* another origin */ }
    if (!inner || inner === focused) return focused;
    focused = inner;
  }
}

// The selected text, in the focused field or in the document; empty if there is none.
function markedText(focused) {
  if (focused?.localName === 'input' && focused.type === 'password') return '';
  const selection = DOC.getSelection(focused?.ownerDocument || document);
  return selection?.type === 'Range' || focused?.selectionEnd > focused?.selectionStart ? squeeze(selection.toString()) : '';
}

function find(id) {
  const el = byId.get(id);
  if (!el) return {error: 'unknown'};
  if (!el.isConnected || !DOC.defaultView(el.ownerDocument)) return {error: 'gone'};
  return {el};
}

const has = ({id}) => !find(id).error;
function node({id}) { return id === null ? document : find(id).el || null; }
function forget() { ids = new WeakMap(); byId.clear(); nextId = 1; }

// Frames whose documents can't be accessed from here, by number.
const holders = [];
function holder({index}) { return holders[index]?.deref() || null; }
function holderNumber(el) {
  let index = holders.findIndex((ref) => ref.deref() === el);
  if (index < 0) index = holders.push(new WeakRef(el)) - 1;
  return index;
}
// A point of the frame's document in the top document here, and whether it is on top. `press`: as in locate.
function pointInHolder({index, x, y, press}) {
  const el = holder({index});
  if (!el || !el.isConnected) return {error: 'gone'};
  const [left, top] = outOf(insideOf(el), x, y);
  const free = deepest(el.ownerDocument, left, top) === el && overFrames(el, left, top) === undefined;
  if (press) expectPress(press, null, el);
  const [topX, topY] = toTop(el, left, top);
  return {x: topX, y: topY, free};
}

// What covers points of the frame's document, in the documents around it: for each a name, or null.
function overHolder({index, points}) {
  const el = holder({index});
  if (!el || !el.isConnected) return points.map(() => null);
  const at = insideOf(el);
  return points.map(([x, y]) => {
    const [left, top] = outOf(at, x, y);
    const hit = deepest(el.ownerDocument, left, top);
    const over = hit === el ? overFrames(el, left, top) : hit;
    return over ? called(over) : null;
  });
}

// Hosts that may have a closed shadow root, which only the protocol can reveal; `adopt` takes what it finds.
let suspects = [];
const asked = new WeakMap();
function takeSuspects() { const out = suspects; suspects = []; return out; }
function adopt(host, root) { anyClosed = true; closedRoots.set(host, root); hidden.add(root); }
