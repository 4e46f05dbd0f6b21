// What the other parts share: element ids, the walk across frames and shadow roots, hit-testing.

let ids = new WeakMap();
const byId = new Map();
let nextId = 1;
let watcher = null;
let mutations = 0;

const TEXT_TYPES = new Set('email number password search tel text url'.split(' '));
const VALUE_TYPES = new Set('color date datetime-local month range time week'.split(' '));
const SKIP = new Set('SCRIPT STYLE NOSCRIPT TEMPLATE HEAD META LINK TITLE BASE SOURCE TRACK PARAM'.split(' '));
const CLICKS = ['click', 'mousedown', 'mouseup', 'pointerdown', 'pointerup', 'dblclick', 'touchstart', 'dragstart'];

const squeeze = (text) => text.replace(/[\s\u00a0\u200b]+/g, ' ').trim();
const clip = (text, limit) => text.length > limit ? text.slice(0, limit - 1) + '\u2026' : text;
const byIdRef = (el, attribute) => (el.getAttribute(attribute) || '').split(/\s+/).filter(Boolean)
  .map((id) => el.getRootNode().getElementById?.(id)).filter(Boolean);

function idOf(el) {
  let id = ids.get(el);
  if (id === undefined) {
    id = nextId++;
    ids.set(el, id);
    byId.set(id, new WeakRef(el));
  }
  return id;
}

function listens(el) {
  if (el.onclick || el.onmousedown || el.onmouseup || el.onpointerdown || el.ondblclick) return true;
  if (!listenersOf) return false;
  const all = listenersOf(el);
  return CLICKS.some((type) => all[type]);
}

function parentAcross(el) {
  return el.assignedSlot || el.parentElement || el.getRootNode().host || null;
}

function isInside(el, ancestor) {
  for (let node = el; node; node = parentAcross(node)) if (node === ancestor) return true;
  return false;
}

function deepest(doc, x, y) {
  let hit = doc.elementFromPoint(x, y);
  while (hit && hit.shadowRoot) {
    const inner = hit.shadowRoot.elementFromPoint(x, y);
    if (!inner || inner === hit) break;
    hit = inner;
  }
  return hit;
}

// Does a click at this point of the element's own document reach the element (or a label of it)?
function reaches(el, x, y) {
  const hit = deepest(el.ownerDocument, x, y);
  if (!hit) return null;
  if (isInside(hit, el)) return true;
  const label = hit.closest?.('label');
  return label && label.control === el ? true : hit;
}

function frameOffset(el) {
  let x = 0, y = 0;
  for (let win = el.ownerDocument.defaultView; win && win !== window; win = win.parent) {
    const holder = win.frameElement;
    if (!holder) break;
    const rect = holder.getBoundingClientRect();
    x += rect.left + holder.clientLeft;
    y += rect.top + holder.clientTop;
  }
  return [x, y];
}

function focusedElement() {
  let focused = document.activeElement;
  for (;;) {
    let inner = null;
    try { inner = focused?.shadowRoot?.activeElement || focused?.contentDocument?.activeElement; } catch { /* another origin */ }
    if (!inner || inner === focused) return focused;
    focused = inner;
  }
}

function find(id) {
  const el = byId.get(id)?.deref();
  if (!el) return {error: 'unknown'};
  if (!el.isConnected || !el.ownerDocument.defaultView) return {error: 'gone'};
  return {el};
}

function node({id}) { const {el} = find(id); return el || null; }
function forget() { ids = new WeakMap(); byId.clear(); nextId = 1; }
