// Watches over a press of the mouse: between aiming and pressing, another element may have come under it. Such a press is
// stopped before the page hears of it, with everything that follows from it. press_listener.js passes the events; it has
// to be the first to listen, and is missing only in documents that no script of ours was told of.

const PRESSES = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'auxclick', 'contextmenu', 'dblclick'];
let aim = null;
let lastMissed = null;

// Expects press number `press` at `el`, aimed at `target` (itself or a label of it) at x, y of its document's viewport.
// Without `el`, none is expected in this document and those around it: it is meant for a frame inside.
function expectPress(press, el, target, x, y) {
  letGo();
  const role = el ? roleOf(el) : '';
  aim = {press, el, target, x, y, role, name: el ? nameOf(el, role, true) : '', fits: null, hit: null, windows: []};
  for (let doc = documentOf(target); doc;) {
    const win = DOC.defaultView(doc);
    aim.windows.push(win);
    win.pressed = onPress;
    if (win.hearsPresses !== true) for (const type of PRESSES) win.addEventListener(type, onPress, true);
    const holder = holderOf(doc);
    doc = holder && documentOf(holder);
  }
}

function letGo() {
  if (!aim) return;
  for (const win of aim.windows) {
    try {
      win.pressed = null;
      if (win.hearsPresses !== true) for (const type of PRESSES) win.removeEventListener(type, onPress, true);
    } catch {
      // It shows a page of another origin now, and heeds nothing of this one.
    }
  }
  aim = null;
}

function onPress(event) {
  if (!aim || !event.isTrusted) return;
  if (aim.fits === null) {
    aim.hit = hitBy(event);
    aim.fits = aim.hit !== null && isMeant(aim.hit);
  }
  if (aim.fits) {
    if (event.type === 'mouseup' && aim.el?.isConnected) noteRelease(event);
    if (event.type === 'click' && isMeant(hitBy(event))) aim.slipped = aim.over = undefined;
    return;
  }
  event.stopImmediatePropagation();
  event.preventDefault();
}

// The element that an event of the mouse is for, in a closed shadow root too; null for the page.
function hitBy(event) {
  const hit = event.composedPath()[0];
  if (hit?.nodeType !== 1) return null;
  return rootOf(hit) && deepest(documentOf(hit), event.clientX, event.clientY) || hit;
}

// Notes what the mouse was released over, if the element was pressed and this is something else, so that no click follows:
// it has moved away, or something has come over it. What the press has opened is what it was for; a field with the focus
// has what a click gives it.
function noteRelease(event) {
  const over = releasedOver(event);
  aim.slipped = over && !isUnder(event);
  const done = hasOpened(aim.el) || textField(aim.el) && focusedElement() === aim.el;
  aim.over = over && !aim.slipped && !done ? called(over) : '';
}

// The element under the mouse, if it isn't the one meant; null where that has gone, and for a drag.
function releasedOver(event) {
  const {clientX, clientY} = event, hit = hitBy(event);
  if (!hit || documentOf(hit) !== documentOf(aim.target) || Math.hypot(clientX - aim.x, clientY - aim.y) > 1) return null;
  const {width, height} = rectOf(aim.target);
  return width && height && !isMeant(hit) ? hit : null;
}

// Has the press on an element opened what it is for?
const hasOpened = (el) => acted?.el === el && (shownPopups(documentOf(el)) > acted.popups || ariaOf(el, 'expanded') && !acted.open);

function isUnder({clientX, clientY}) {
  const {left, top, right, bottom} = rectOf(aim.target);
  return clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
}

function isMeant(hit) {
  const {el, target, role, name} = aim;
  if (!el) return false;
  if (isInside(hit, el) || isInside(hit, target) || standsFor(hit, el)) return true;
  if (el.isConnected) return false;
  // It was drawn anew, as frameworks do: the same again, and none that was there before.
  for (let node = hit; node && !ids.has(node); node = parentAcross(node)) {
    if (node.localName === el.localName && roleOf(node) === role && nameOf(node, role, true) === name) return true;
  }
  return false;
}

// What received the last press instead of its element: its number and element, what it was, and whether it was stopped.
function missed() {
  if (!aim) return lastMissed;
  const {press, el, target, x, y, fits, hit, slipped, over: released} = aim;
  lastMissed = null;
  if (fits === false) lastMissed = {press, what: hit ? called(hit) : 'the page', stopped: true};
  if (slipped || released) lastMissed = {press, slipped, released};
  if (fits === null && el) {
    const over = deepest(documentOf(target), x, y);
    if (over && FRAMES.has(over.localName) && !isInside(over, target)) lastMissed = {press, what: 'a frame', stopped: false};
  }
  letGo();
  return lastMissed;
}

// An element or what it is a part of, by role and name.
function called(el) {
  for (let node = el; node; node = parentAcross(node)) {
    const role = roleOf(node);
    if (ids.has(node) || INTERACTIVE_ROLES.has(role)) return role + ' ' + quoted(clip(nameOf(node, role, true), 80));
  }
  return describe(el);
}

// An element as an observation has it, or null: by id, by what is at a point, or what has the focus. It stands for what it
// is a part of, if that is what takes the press.
function described({id, x, y}) {
  let el = id !== null ? find(id).el : x !== null ? deepest(document, x, y) : focusedElement();
  for (let inner = el; id === null && x !== null && inner && FRAMES.has(inner.localName);) {
    const at = insideOf(inner);
    ({x, y} = at.turn ? at.turn.inverse().transformPoint({x, y}) : {x: (x - at.x) / at.sx, y: (y - at.y) / at.sy});
    try { inner = inner.contentDocument && deepest(inner.contentDocument, x, y); } catch { break; }
    el = inner || el;
  }
  if (!el) return {};
  for (let up = el; up && up !== DOC.body(documentOf(up)); up = parentAcross(up)) {
    if (INTERACTIVE_ROLES.has(roleOf(up)) || tagOf(up) !== 'form' && listens(up)) { el = up; break; }
  }
  const role = roleOf(el), {left, top, width, height} = boxOf(el);
  return {id: idOf(el), role, name: clip(nameOf(el, role, true), 300), tag: tagOf(el), bbox: [left, top, width, height]};
}

// What has happened since this was asked last, in a drag that began at an element or at a point: has the browser `begun` a
// drag, has the page started timers (ours have numbers of the same row), and moved elements? With `last`, nothing more is
// heeded.
let heeded = null;
function heedDrag({id, x, y, last}) {
  const el = id ? find(id).el : deepest(document, x, y) || DOC.documentElement(document);
  const doc = documentOf(el), win = DOC.defaultView(doc);
  const begun = Boolean(win.dragStarted) && !win.dragStarted.defaultPrevented;
  win.dragStarted = null;
  const timer = win.setTimeout(() => {}), since = heeded;
  win.clearTimeout(timer);
  const records = since?.observer.takeRecords().length;
  since?.observer.disconnect();
  const observer = new MutationObserver(() => { heeded.rearranged = true; });
  heeded = last ? null : {win, timer, observer, rearranged: false};
  if (!last) observer.observe(doc, {subtree: true, childList: true});
  if (since?.win !== win) return {begun, timed: false, rearranged: false};
  return {begun, timed: timer > since.timer + 1, rearranged: since.rearranged || records > 0};
}
