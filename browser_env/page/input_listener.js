// Recording, first half: a person's input in any frame, before a handler of the page can hide it. Runs in an isolated
// world from before the page's first script. It passes events on to the in-page script of the outermost document that it
// can access (input_recorder.js), by an event with a random name; earlier ones are kept until that script is installed.

const before = getter(Node.prototype, 'previousSibling');
const above = getter(Node.prototype, 'parentNode');
const hostOf = getter(ShadowRoot.prototype, 'host');
const MOVES = 500;  // milliseconds between two reports of the mouse's presence
let moved = -MOVES;
const KEPT = 200;  // events
const connected = getter(Node.prototype, 'isConnected');
let early = [], warned = false;

// The path to a node from the outermost accessible document: child indices, 'shadow' and 'frame'.
function wayTo(node) {
  const path = [];
  let win = window;
  for (;;) {
    for (let up; (up = above(node)); node = up) {
      let index = 0;
      for (let one = before(node); one; one = before(one)) index++;
      path.unshift(index);
    }
    if (node instanceof ShadowRoot) { path.unshift('shadow'); node = hostOf(node); continue; }
    let holder = null;
    try { holder = win.frameElement; } catch { /* another origin is around it */ }
    if (!holder) return {path, win};
    path.unshift('frame');
    node = holder;
    win = win.parent;
  }
}

function tell(event) {
  if (!event.isTrusted || event.isComposing && event.type === 'keydown') return;
  if (event.type === 'mousemove') {
    if (event.timeStamp - moved < MOVES) return;
    moved = event.timeStamp;
  }
  const target = event.composedPath()[0];
  const node = target === window || target === document ? DOC.documentElement(document) : target;
  if (!(node instanceof Node)) return;
  const fact = {
    type: event.type, x: event.clientX, y: event.clientY, button: event.button, detail: event.detail, key: event.key, repeat: event.repeat,
    held: ['Control', 'Alt', 'Shift', 'Meta'].filter((name) => event[{Control: 'ctrlKey', Alt: 'altKey', Shift: 'shiftKey', Meta: 'metaKey'}[name]]),
    inputType: event.inputType, data: event.data,
  };
  say(node, fact);
  // A key that the browser handles by itself is no action, unless the page handles it.
  if (event.type === 'keydown') setTimeout(() => { if (event.defaultPrevented) say(node, {...fact, type: 'taken'}); });
}

function say(node, fact) {
  const {path, win} = wayTo(node);
  const unheard = dispatch(win, new CustomEvent(EVENT, {cancelable: true, detail: JSON.stringify({...fact, path})}));
  if (!unheard || fact.type === 'mousemove' || fact.type === 'scroll' || early.length === KEPT) return;
  early.push([node, fact]);
  if (!warned && (fact.type === 'mousedown' || fact.type === 'keydown')) {
    warned = true;
    globalThis[REPORT](JSON.stringify({kind: 'early'}));
  }
}

wayTo(document).win.addEventListener(`${EVENT}:ready`, () => {
  const kept = early;
  early = [];
  for (const [node, fact] of kept) if (connected(node)) say(node, fact);
});

for (const type of ['mousedown', 'mouseup', 'click', 'contextmenu', 'keydown', 'beforeinput', 'input', 'change', 'dragstart', 'drop', 'dragend', 'wheel', 'scroll', 'mousemove']) {
  // With a passive listener, the page may have scrolled already when the wheel event is reported.
  addEventListener(type, tell, {capture: true, passive: type !== 'wheel'});
}
