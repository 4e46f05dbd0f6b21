// Clock, timers, animations and random numbers of a document, all determined by a seed. Runs before the page's own
// scripts. Time stands still until `advance` is called, which runs what is due, in order.
(seed) => {
  const key = Symbol.for('selfsurf.clock');
  if (window[key]) return;

  const FRAME = 1000 / 60;
  const nativeFrame = window.requestAnimationFrame.bind(window);
  const nativeTimeout = window.setTimeout.bind(window);
  const NativeDate = Date;
  const channel = new MessageChannel();
  let resume = null;
  channel.port1.onmessage = () => { const go = resume; resume = null; go?.(); };
  const nextTask = () => new Promise((go) => { resume = go; channel.port2.postMessage(0); });
  // A hidden document is never painted, hence the limit of `most` milliseconds.
  const nextPaint = (most = 50) => new Promise((go) => {
    nativeFrame(() => go());
    nativeTimeout(go, document.hidden ? 50 : most);
  });

  const EPOCH = NativeDate.UTC(2026, 0, 1, 12);
  let start = 0; // the episode's time at which this document began, in milliseconds
  let now = 0; // milliseconds of the episode
  let reads = 0;

  // A busy loop that waits for time to pass would never end: every hundredth reading advances a millisecond.
  const read = () => { if (++reads % 100 === 0) now += 1; return now; };

  const define = (target, name, value) =>
    Object.defineProperty(target, name, {value, writable: true, configurable: true, enumerable: false});

  window.Date = new Proxy(NativeDate, {
    apply: () => new NativeDate(EPOCH + read()).toString(),
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length ? args : [EPOCH + read()], newTarget === window.Date ? target : newTarget),
  });
  define(NativeDate, 'now', () => Math.floor(EPOCH + read()));
  define(NativeDate.prototype, 'constructor', window.Date);
  define(Performance.prototype, 'now', () => read() - start);
  const stamps = new WeakMap();
  Object.defineProperty(Event.prototype, 'timeStamp', {
    configurable: true,
    get() {
      if (!stamps.has(this)) stamps.set(this, now - start);
      return stamps.get(this);
    },
  });

  // Timers and frames: one queue, ordered by due time and then by number.
  const queue = new Map();
  let lastId = 0;
  const add = (entry) => { queue.set(++lastId, {id: lastId, ...entry}); return lastId; };
  const remove = (id) => { queue.delete(Number(id)); };
  const runnable = (code) => (typeof code === 'function' ? code : () => (0, eval)(String(code)));
  const delay = (ms, least) => Math.max(least, Number(ms) || 0);
  define(window, 'setTimeout', (code, ms, ...args) => add({due: now + delay(ms, 1), run: runnable(code), args}));
  define(window, 'setInterval', (code, ms, ...args) =>
    add({due: now + delay(ms, 4), every: delay(ms, 4), run: runnable(code), args}));
  define(window, 'clearTimeout', remove);
  define(window, 'clearInterval', remove);
  define(window, 'requestAnimationFrame', (run) =>
    add({due: (Math.floor(now / FRAME + 1e-6) + 1) * FRAME, run, frame: true}));
  define(window, 'cancelAnimationFrame', remove);
  define(window, 'requestIdleCallback', (run) =>
    add({due: now + 1, run: () => run({didTimeout: false, timeRemaining: () => 10})}));
  define(window, 'cancelIdleCallback', remove);

  // Random numbers: mulberry32 from the seed and the document's address.
  let state = seed >>> 0;
  for (const letter of location.href) state = (Math.imul(state, 31) + letter.codePointAt(0)) >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  define(Math, 'random', random);
  define(Crypto.prototype, 'getRandomValues', (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(random() * 256);
    return array;
  });
  if (Crypto.prototype.randomUUID) {
    define(Crypto.prototype, 'randomUUID', () =>
      '10000000-1000-4000-8000-100000000000'.replace(/[018]/g, (c) =>
        (Number(c) ^ (Math.floor(random() * 16) >> (Number(c) / 4))).toString(16)));
  }

  // CSS animations and transitions are held from their first frame on, and moved by hand. Returns whether events come of
  // it.
  const held = new Map();
  const begun = new Set(); // held, and perhaps not reported yet
  const hold = (animation) => {
    if (animation.timeline !== document.timeline || held.has(animation) || animation.playState !== 'running') return;
    animation.pause();
    held.set(animation, 0);
    begun.add(animation);
  };
  const holdAll = () => { document.getAnimations().forEach(hold); };
  document.addEventListener('DOMContentLoaded', holdAll);
  for (const name of ['animationstart', 'transitionrun']) window.addEventListener(name, holdAll, true);
  const animate = (ms) => {
    let events = false;
    for (const animation of document.getAnimations()) {
      hold(animation);
      if (!held.has(animation)) continue;
      if (begun.delete(animation)) events = true;
      const round = animation.effect?.getComputedTiming().currentIteration;
      const at = held.get(animation) + ms * animation.playbackRate;
      held.set(animation, at);
      const end = animation.effect ? animation.effect.getComputedTiming().endTime : 0;
      if (at >= end || at < 0) {
        held.delete(animation);
        animation.finish();
        events = true;
      } else {
        animation.currentTime = at;
        events ||= animation.effect?.getComputedTiming().currentIteration !== round;
      }
    }
    return events;
  };

  // A caret blinks by the real clock: it is shown all the time, or not at all where that can't be had.
  const steady = CSS.supports('caret-animation: manual') ? 'caret-animation: manual' : 'caret-color: transparent';
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`:root {${steady}}`);
  document.adoptedStyleSheets.push(sheet);

  const runUntil = async (end) => {
    for (;;) {
      let next = null;
      for (const entry of queue.values()) {
        if (entry.due <= end && (next === null || entry.due < next.due)) next = entry;
      }
      if (next === null) break;
      now = Math.max(now, next.due);
      if (next.every) {
        // Moved behind the others that are due at the same time, as in a browser.
        queue.delete(next.id);
        queue.set(next.id, {...next, due: next.due + next.every});
      } else {
        queue.delete(next.id);
      }
      try {
        next.run.apply(window, next.frame ? [now - start] : next.args);
      } catch (error) {
        reportError(error);
      }
      await nextTask();
    }
    now = Math.max(now, end);
  };

  const clock = {
    // The document begins at this time of the episode.
    begin(at) {
      start = now = Math.max(now, at);
      state = (state + Math.imul(at, 2654435761)) >>> 0;
    },
    // Two frames of the real clock: by then it shows what an action has started, such as a navigation.
    async rest() { await nextPaint(); await nextPaint(); },
    async slice(end) {
      const ms = Math.max(0, end - now);
      await runUntil(end - 1e-6); // what is due exactly at the end, such as a frame, runs after the animations
      now = Math.max(now, end);
      // The browser reports their starts and ends with its next real frame. Waiting for it keeps them at the same time
      // of the episode.
      if (animate(ms)) await nextPaint(1000);
      await runUntil(end);
    },
    // Move this document and the same-origin documents in it to `end`, a frame at a time.
    async advance(end) {
      const clocks = [];
      const collect = (view) => {
        try { if (view[key]) clocks.push(view[key]); } catch { return; } // another origin: asked on its own
        for (let i = 0; i < view.frames.length; i++) collect(view.frames[i]);
      };
      for (let at = Math.min(now + FRAME, end); ; at = Math.min(at + FRAME, end)) {
        clocks.length = 0;
        collect(window);
        for (const each of clocks) await each.slice(at);
        if (at >= end) break;
      }
      await nextPaint();
    },
  };
  Object.defineProperty(window, key, {value: clock, enumerable: false});
  if (window[Symbol.for('selfsurf.begin')] !== undefined) clock.begin(window[Symbol.for('selfsurf.begin')]);
}
