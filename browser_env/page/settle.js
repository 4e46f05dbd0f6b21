// Waits for the page to be quiet, and observes it then.

let watcher = null;
let mutations = 0;
let telling = 0;  // those that may be what the action was for
const self = Math.random().toString(36);

const CHANGES = {subtree: true, childList: true, attributes: true, characterData: true};

// What else is watched: shadow roots and documents of frames that an observation has come through.
let watched = [], purgeWatchedAt = 100;
const isWatched = new WeakSet();
function watch(root) {
  if (isWatched.has(root)) return;
  isWatched.add(root);
  if (watched.length >= purgeWatchedAt) {
    watched = watched.filter((ref) => ref.deref());
    purgeWatchedAt = 2 * watched.length + 100;
  }
  watched.push(new WeakRef(root));
  counted();
  watcher.observe(root, CHANGES);
}
const roots = () => [document, ...watched.map((ref) => ref.deref()).filter(Boolean)];
const documentWindows = () => roots().filter((root) => typeOf(root) === 9).map(DOC.defaultView).filter(Boolean);

// The number of DOM mutations so far.
function counted() {
  if (!watcher) {
    watcher = new MutationObserver(count);
    watcher.observe(document, CHANGES);
  }
  count(watcher.takeRecords());
  return mutations;
}
function count(records) {
  mutations += records.length;
  if (records.length <= MANY_RECORDS) noteLoading(records);
  telling += records.length > MANY_RECORDS ? records.length : records.filter(isTelling).length;
}

const MANY_RECORDS = 200;
const hasWords = (node) => textOf(node).trim() !== '';

// Is a change more than what shows that the mouse is there: a ripple in the button, the look of what is hovered?
function isTelling({type, target, attributeName, addedNodes, removedNodes}) {
  if (!acted || !isInside(target, acted.el)) return true;
  if (type === 'attributes') return !attributeName.startsWith('data-') && !(acted.hovered && (attributeName === 'class' || attributeName === 'style'));
  return type !== 'childList' || [...addedNodes, ...removedNodes].some(hasWords);
}

// Identifies the current state of the document: it differs after any change, and in any other document.
function edition() { return self + counted(); }

// Notes that an element is about to be scrolled by a script of ours, which is input like any other (`timers.js`). Listeners
// that draw in the next frame, and what watches for things to come into view, take a frame more.
let followsScroll = false;
function noteScrolled(el) {
  const doc = documentOf(el);
  const isKnown = !anyClosed || !hidden.has(treeOf(el));
  followsScroll = !isKnown || [el, ...documentWindows()].some((target) => answers(target, '-scroll')) || DOC.querySelectorAll(doc, '[loading=lazy]').length > 0;
  globalThis.tellInput?.(DOC.defaultView(doc));
}

// Resolves when the DOM has been quiet for `frames` consecutive frames, or after `bound` milliseconds: `quiet` says which,
// `still` whether nothing at all has changed meanwhile. Without frames to wait for, it resolves at once.
function settle({frames, bound}) {
  if (!frames) return {quiet: true, still: true, waited: 0};  // without scripts, frame callbacks don't run
  const scrolled = followsScroll, wanted = frames + scrolled;
  followsScroll = false;
  return new Promise((done) => {
    const resolve = (found) => (scrolled ? inNextTask(() => done(found)) : done(found));
    const first = counted();
    const start = performance.now();
    let quiet = 0;
    let seen = first;
    const tick = () => {
      quiet = counted() === seen ? quiet + 1 : 0;
      seen = mutations;
      const now = performance.now();
      if (quiet >= wanted || now >= start + bound) resolve({quiet: quiet >= wanted, still: seen === first, waited: now - start});
      else next();
    };
    const next = () => framed().then(tick);
    next();
  });
}

// Calls back in a task of its own: observers of what comes into view are told in a task behind the frame.
function inNextTask(callback) {
  const {port1, port2} = new MessageChannel();
  port1.onmessage = () => { port1.close(); callback(); };
  port2.postMessage(0);
}

// Resolves in the next frame, with the edition before it. A page in the background draws no frames: a timer replaces them.
function framed() {
  const before = edition();
  return new Promise((resolve) => {
    requestAnimationFrame(() => resolve(before));
    setTimeout(() => resolve(before), 200);
  });
}

// Settles and then observes, in one call.
async function look({frames, bound, what}) {
  const settled = await settle({frames, bound});
  return JSON.stringify({...settled, ...signs(), ...pass(what)});
}

// Observes at once; `still` says whether the document is still the edition `seen`.
function review({seen, what}) {
  const still = edition() === seen;
  return JSON.stringify({still, quiet: still, waited: 0, ...signs(), ...pass(what)});
}
