// Answers the in-page script's events PROBE-timers in the page's main world, by cancelling them: are short timers pending
// that the last step's input has set? Timers set by their callbacks count, too; what the page began before that input
// doesn't. PROBE-input says that there was input.
(() => {
  const SOON = 600;  // milliseconds: longer timers remind, end sessions, take notes away
  const {apply} = Reflect, {create} = Object;
  const stop = Event.prototype.stopImmediatePropagation, cancel = Event.prototype.preventDefault;
  let step = 0;  // counts the steps with input
  let observed = true;  // since that input
  let pending = create(null);  // ids of timers
  let running = null;  // the step that the callback which runs belongs to
  // This function's name, next to the end of a request's stack, tells that the request isn't the step's own.
  const background = (code, self, args) => apply(code, self, args);

  const follow = (name, isTimer) => {
    window[name] = new Proxy(window[name], {apply(native, self, args) {
      const code = args[0], of = running ?? step;
      let id = 0;
      if (typeof code !== 'function') return apply(native, self, args);
      args[0] = function (...given) {
        const before = running;
        running = of;
        delete pending[id];
        try { return of < step ? background(code, this, given) : apply(code, this, given); } finally { running = before; }
      };
      id = apply(native, self, args);
      if (isTimer && step && of === step && !(args[1] > SOON)) pending[id] = true;
      return id;
    }});
  };
  follow('setTimeout', true);
  follow('setInterval', false);
  follow('requestAnimationFrame', false);
  window.clearTimeout = new Proxy(window.clearTimeout, {apply(native, self, args) {
    if (typeof args[0] === 'number') delete pending[args[0]];
    return apply(native, self, args);
  }});

  addEventListener('PROBE-input', (event) => {
    apply(stop, event, []);
    if (observed) { observed = false; step++; pending = create(null); }
  }, true);
  addEventListener('PROBE-timers', (event) => {
    apply(stop, event, []);
    observed = true;
    for (const _ in pending) { apply(cancel, event, []); return; }
  }, true);
})()
