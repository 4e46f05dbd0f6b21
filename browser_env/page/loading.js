// Signs that a page is not finished although its DOM is quiet: loading indicators, and whether anything has changed
// since the last observation.

const LOADING = '[aria-busy=true], [role=progressbar]:not([aria-valuenow]), progress:not([value]), [role=status], [role=alert], [aria-live], .spinner, .loading, .loader';
const MANY = 5000;  // elements; in larger documents only the fast queries are used
const LOADING_CLASS = /(^|[\s_-])(spinner|loading|loader)([\s_-]|$)/i;
const LOADING_TEXT = /^\W*(loading|please wait|searching|fetching|one moment|working)\b/i;
const SAYS_LOADING = /^\W*(loading|please wait|searching|fetching|one moment|working)\b([^.\u2026]{0,30}(\.{2,}|\u2026)|)\W*$/i;
const outlived = new WeakSet();
const saying = new Set();  // plain texts that came, and said that something is loading

function noteLoading(records) {
  for (const {target, addedNodes} of records) {
    for (const node of typeOf(target) === 1 ? addedNodes : [target]) {
      const el = node.nodeType === 3 ? node.parentElement : node.nodeType === 1 && !node.childElementCount ? node : null;
      if (el && el.textContent.length < 60 && SAYS_LOADING.test(el.textContent)) saying.add(el);
    }
  }
}
let mutationsSeen = -1, tellingSeen = -1;
function see() { [mutationsSeen, tellingSeen] = [counted(), telling]; }

const animatedForEver = (el) => animationsOf(el, {subtree: true}).some((one) => one.playState === 'running' && one.effect?.getTiming().iterations === Infinity);

// Does it turn like a spinner: small, fast and without an end? Larger and slower ones are ornaments.
const TURNING = 'animateTransform[type=rotate][repeatCount=indefinite]';
const SPINNER = {size: 64, turn: 3000};  // pixels; milliseconds
function spins(el, animations = animationsOf(el, {subtree: true}).filter((one) => one.effect?.target === el)) {
  const isSmall = ({width, height}) => parseFloat(width) <= SPINNER.size && parseFloat(height) <= SPINNER.size;
  if (el.localName === 'svg') return isSmall(rectOf(el)) && el.querySelector(TURNING) !== null;
  return animations.some(({playState, effect}) => {
    const {iterations, duration} = effect?.getTiming() || {};
    if (!isSmall(effect?.pseudoElement ? getComputedStyle(el, effect.pseudoElement) : rectOf(el))) return false;
    return playState === 'running' && iterations === Infinity && duration <= SPINNER.turn && effect.getKeyframes().some((frame) => frame.rotate || /rotate/.test(frame.transform));
  });
}

// Is its opacity animated, so that it may be seen at another moment?
const blinks = (el) => animationsOf(el).some((one) => one.playState === 'running' && one.effect?.getKeyframes().some((frame) => 'opacity' in frame));

function isLoading(el) {
  const rect = rectOf(el);
  if (!rect.width || !rect.height || rect.top > innerHeight || rect.bottom < 0 || !isVisible(el, {opacityProperty: !blinks(el), visibilityProperty: true})) return false;
  if (attributeOf(el, 'aria-busy') === 'true' || el.localName === 'progress') return true;
  if (attributeOf(el, 'role') === 'progressbar') return animatedForEver(el);  // else it may count down until a note goes
  if (textOf(el).length < 60 && LOADING_TEXT.test(textOf(el))) return true;
  if (spins(el)) return true;
  return LOADING_CLASS.test(attributeOf(el, 'class') || '') && animationsOf(el, {subtree: true}).some((one) => one.playState === 'running');
}

const MANY_ROOTS = 100;

// What looks like a loading indicator: by its attributes, by its class if it or something in it is animated, or by how it
// is animated.
function candidates() {
  const shadows = roots().filter((root) => typeOf(root) === 11 && root.host.isConnected).slice(0, MANY_ROOTS);
  const out = new Set(DOC.querySelectorAll(document, DOC.getElementsByTagName(document, '*').length > MANY ? 'progress:not([value])' : LOADING));
  for (const turning of DOC.querySelectorAll(document, TURNING)) out.add(turning.closest('svg'));
  for (const root of shadows) {
    for (const el of root.querySelectorAll(LOADING)) out.add(el);
    for (const turning of root.querySelectorAll(TURNING)) out.add(turning.closest('svg'));
  }
  for (const animation of [DOC.getAnimations(document), ...shadows.map((root) => root.getAnimations())].flatMap((some) => some.slice(0, 100))) {
    let el = animation.effect?.target;
    if (el && spins(el, [animation])) out.add(el);
    for (let up = 0; el && up < 4; up++, el = parentAcross(el)) {
      if (LOADING_CLASS.test(attributeOf(el, 'class') || '')) out.add(el);
    }
  }
  for (const el of saying) {
    if (el.isConnected && SAYS_LOADING.test(el.textContent)) out.add(el);
    else saying.delete(el);
  }
  return Array.from(out);
}

const loadingNow = () => candidates().filter((el) => !outlived.has(el) && isLoading(el));

const OFFERS = '[role=combobox], [type=search], [aria-autocomplete], [aria-haspopup], [aria-controls], [aria-owns], [autocomplete=off]';
const OFFERING = /search|query|complete|typeahead|suggest|filter/i;

// To which actions the focused element may react late, judged by its kind: Enter, a click, a change of its text.
function due() {
  const el = focusedElement();
  if (!el || el === DOC.body(documentOf(el)) || /^i?frame$/.test(el.localName)) return [];
  const long = el.localName === 'textarea' || el.isContentEditable;
  const out = long ? [] : ['enter'];
  if (matchesOf(el, 'button, [type=submit], [type=button], [role=button]')) out.push('button');
  const words = [el.id, el.name, el.className, el.placeholder, el.ariaLabel].join(' ');
  if ((long || textField(el)) && (el.matches(OFFERS) || OFFERING.test(words))) out.push('text');
  return out;
}

// Does the page listen for this kind of action (`due`) at the focused element, or at an ancestor?
function reacts({hint}) {
  const el = focusedElement();
  if (!el) return false;
  if (anyClosed && hidden.has(treeOf(el))) return true;  // which can't be known there
  const asks = (target) => answers(target, '-' + hint);
  for (let node = el; node; node = parentAcross(node)) if (asks(node)) return true;
  return asks(documentOf(el)) || asks(DOC.defaultView(documentOf(el)));
}

// What has happened since the last observation: `stirred`, has the DOM changed; `busy`, does it show a loading indicator
// other than those that outlasted an earlier wait.
function signs() {
  counted();
  const changed = mutations !== mutationsSeen, stirred = telling !== tellingSeen;
  see();
  return {stirred, busy: changed && loadingNow().length > 0, due: due(), announced: announced(), owed: owed()};
}

// Is something pending that the step's input has asked for (timers.js)? In each document the question ends the step.
function owed() {
  const windows = documentWindows();
  for (const win of windows) win.inputTold = false;
  return windows.filter((win) => answers(win, '-timers')).length > 0 || ending();
}

const SOON_ENDED = 600;  // milliseconds: longer animations are decoration

// Is an element being animated since that input that listens for the end?
const ending = () => DOC.getAnimations(document).slice(0, 100).some((one) => {
  if (!(one instanceof CSSTransition || one instanceof CSSAnimation) || one.playState !== 'running' || (one.startTime ?? Infinity) < globalThis.inputAt) return false;
  return one.effect.getComputedTiming().endTime - one.currentTime <= SOON_ENDED && answers(one.effect.target, '-end');
});

// Waits for these, and for what follows them.
const timersRan = ({bound}) => until(() => !owed(), bound, 10);

const POPUPS = '[role=menu], [role=listbox], [role=dialog], [role=tree], [role=grid], [role=tooltip], dialog[open], [popover]';
const shownPopups = (doc) => Array.from(DOC.querySelectorAll(doc, POPUPS)).filter((el) => sized(el) && isVisible(el, {visibilityProperty: true})).length;

// Notes what is acted on, and how many popups there are before.
let acted = null;
function noteActed(el, hovered) {
  acted = {el, hovered, popups: shownPopups(documentOf(el)), open: ariaOf(el, 'expanded')};
}

// Is something about to fade in, after a delay? It draws nothing yet.
const appears = () => DOC.getAnimations(document).slice(0, 100).some((one) => {
  const el = one.effect?.target;
  return one instanceof CSSTransition && one.playState === 'running' && el?.isConnected && sized(el) && !isVisible(el, {opacityProperty: true, visibilityProperty: true});
});

// Is the page being dimmed for a dialog that is not there yet? Many show it when that has ended.
const dims = () => shownPopups(document) <= acted.popups && DOC.getAnimations(document).slice(0, 100).some((one) => {
  const el = one.effect?.target;
  if (!(one instanceof CSSTransition) || one.playState !== 'running' || one.transitionProperty !== 'opacity' || !el?.isConnected || el.firstElementChild) return false;
  const {width, height} = rectOf(el);
  return width >= innerWidth && height >= innerHeight && getComputedStyle(el).position === 'fixed' && Number(one.effect.getKeyframes().at(-1).opacity) > 0;
});

// Has what was acted on announced a popup that isn't there yet?
function announced() {
  if (!acted) return false;
  if (appears() || dims()) return true;
  if (!acted.el.isConnected) return false;
  const {el, popups, open} = acted;
  const opened = ariaOf(el, 'expanded') && !open;
  const has = attributeOf(el, 'aria-haspopup');
  if (!opened && (!has || has === 'false' || open || attributeOf(el, 'aria-expanded') === 'false' && !opened)) return false;
  if (shownPopups(documentOf(el)) > popups) return false;
  return !byIdRef(el, 'aria-controls').some((list) => sized(list) && isVisible(list, {visibilityProperty: true}));
}

// Waits for it; one that does not come is not waited for again.
async function popupCame({bound}) {
  const came = await until(() => !announced(), bound);
  acted = null;
  return came;
}

// Waits for what unfolds or slides in to be where it will be; returns whether anything moved.
const moving = () => DOC.getAnimations(document).some((one) => one.playState === 'running' && (one instanceof CSSTransition || leftOf(one) < OPENING));
const leftOf = (animation) => animation.effect?.getComputedTiming().endTime - animation.currentTime;
async function stilled({bound}) {
  if (!moving()) return false;
  await until(() => !moving(), bound);
  return true;
}

// Resolves when `done` returns true, or after `bound` milliseconds. `done` is called whenever the DOM changes and every
// few milliseconds, since style sheets can hide things without a change of the DOM.
function until(done, bound, every = 50) {
  return new Promise((resolve) => {
    const finish = (answer) => { observer.disconnect(); clearInterval(timer); clearTimeout(end); resolve(answer); };
    const ask = (records) => { if (done(records)) finish(true); };
    const observer = new MutationObserver(ask);
    for (const root of roots()) observer.observe(root, CHANGES);
    const timer = setInterval(ask, every, []);
    const end = setTimeout(finish, bound, false);
  });
}

// Waits for loading indicators to go; those that stay are not waited for again.
async function loaded({bound}) {
  const gone = await until(() => !loadingNow().length, bound);
  if (!gone) for (const el of loadingNow()) outlived.add(el);
  mutationsSeen = -1;
  return gone;
}

// Waits for the first change of the DOM: from now on, or with `unseen` since `signs` was asked.
const firstSign = ({bound, unseen}) => unseen && (counted(), telling) !== tellingSeen ? true : until((records) => records.some(isTelling), bound);

// Pictures in view that have no box yet, by the last pass, and those that have been waited for.
let arriving = [];
const arrived = new WeakSet();

// Is an element without a box to show a picture of its style that is still being loaded? It doesn't say so, but the same
// picture does.
const pictures = new WeakMap();
const OF_STYLE = /^url\("((?:[^"\\]|\\.)*)"\)/;
function comes(el, style, {width, height}) {
  if (width && height) return false;
  const url = OF_STYLE.exec(style.content)?.[1];
  if (!url) return false;
  let picture = pictures.get(el);
  if (picture?.src !== url) {
    picture = new Image();
    picture.src = url;
    pictures.set(el, picture);
  }
  return !picture.complete;
}

// Waits for them, since what is below them moves when they come; one that does not come is not waited for again.
async function picturesCame({bound}) {
  const some = arriving.filter((el) => !arrived.has(el));
  for (const el of some) arrived.add(el);
  const all = Promise.allSettled(some.map((el) => (pictures.get(el) || el).decode()));
  await Promise.race([all, new Promise((resolve) => setTimeout(resolve, bound))]);
}

// Elements in the last pass that a person could use if they took the pointer.
let mouseless = [];
const OPENING = 500, CAUGHT = 100;  // milliseconds: of the longest opening that is waited for; for a script to end it
const FIRST_FRAMES = 2;  // in which a transition of something new begins
const still = new WeakSet();  // elements with a transition that has not begun in these frames

// Is it scaled to nothing, as what is about to grow?
function isFlat(el) {
  const {transform} = getComputedStyle(el);
  if (transform === 'none') return false;
  const {a, b, c, d} = new DOMMatrix(transform);
  return a * d === b * c;
}

// The element and those around it, as far as they take no pointer; or those that are scaled to nothing.
function withoutPointer(el) {
  const out = [];
  for (let node = el; node?.isConnected && getComputedStyle(node).pointerEvents === 'none'; node = parentAcross(node)) out.push(node);
  for (let node = out.length ? null : el; node?.isConnected; node = parentAcross(node)) if (isFlat(node)) out.push(node);
  return out;
}

// Milliseconds until the animations of such elements end; 0 if there are none, or only such as are no opening.
function opensIn(elements) {
  const animations = elements.flatMap((el) => animationsOf(el)).filter((one) => one.playState === 'running');
  return Math.max(0, ...animations.map(leftOf).filter((ms) => ms > 0 && ms < OPENING));
}

// Is it being opened, or about to be? Those that have stayed without the pointer are not waited for again.
function isOpening(el) {
  if (outlived.has(el) || disabled(el)) return false;
  const elements = withoutPointer(el);
  const isTimed = (node) => {
    const {transitionDuration, animationDuration} = getComputedStyle(node);
    return /[1-9]/.test(transitionDuration + (isFlat(node) ? animationDuration : ''));
  };
  return opensIn(elements) > 0 || !still.has(el) && elements.some(isTimed);
}

// Waits until what opens, or closes, has done so.
async function opened({bound}) {
  const opening = mouseless.filter(isOpening);
  const held = () => opening.map(withoutPointer).filter((elements) => elements.length);
  let left = 0;
  for (let frame = 0; !(left = opensIn(held().flat())) && frame < FIRST_FRAMES; frame++) await framed();
  if (left || held().flat().some(isFlat)) await until(() => !held().length, Math.min(bound, left + CAUGHT), 10);
  for (const [el] of held()) (left ? outlived : still).add(el);
}
