// Answers the in-page script's events PROBE-timers in the page's main world, by cancelling them: is something pending that
// the last step's input has asked for: short timers, idle callbacks, tasks, messages between ports, the next frames, answers
// to requests? What their callbacks ask for counts, too; what the page began before that input doesn't. PROBE-input says
// that there was input.
(() => {
  const SOON = 600;  // milliseconds: longer timers remind, end sessions, take notes away
  const FRAMES = 2;  // in a row; more are an animation
  const {apply, construct} = Reflect, {create, getOwnPropertyDescriptor} = Object;
  const stop = Event.prototype.stopImmediatePropagation, cancel = Event.prototype.preventDefault;
  const listen = EventTarget.prototype.addEventListener, ignore = EventTarget.prototype.removeEventListener;
  let step = 0;  // counts the steps with input
  let observed = true;  // since that input
  let pending = create(null);
  let running = null;  // the step that the callback which runs belongs to
  let frames = 0;  // how many in a row led to it
  let tasks = 0;
  // This function's name, next to the end of a request's stack, tells that the request isn't the step's own.
  const background = (code, self, args) => apply(code, self, args);

  const isOfStep = (of) => step > 0 && of === step;

  // `kind`: timers, frames or others, whose ids differ; `isSoon`: with these arguments, is it waited for?
  const follow = (owner, name, kind, isSoon) => {
    owner[name] = new Proxy(owner[name], {apply(native, self, args) {
      const code = args[0], of = running ?? step, inRow = kind === 'frame' ? frames + 1 : 0;
      const isAwaited = isOfStep(of) && inRow <= FRAMES && isSoon(args[1]);
      let key = '';
      if (typeof code === 'function') {
        args[0] = function (...given) {
          const before = running, framesBefore = frames;
          [running, frames] = [of, inRow];
          delete pending[key];
          try { return of < step ? background(code, this, given) : apply(code, this, given); } finally { [running, frames] = [before, framesBefore]; }
        };
      }
      const id = apply(native, self, args);
      key = kind + (typeof id === 'number' ? id : ++tasks);
      if (!isAwaited) return id;
      if (typeof code === 'function') pending[key] = true;
      else if (typeof code === 'string' && kind === 'timer') { pending[key] = true; apply(native, self, [() => { delete pending[key]; }, args[1]]); }
      const signal = kind === 'task' && args[1]?.signal;
      if (signal) {
        if (signal.aborted) delete pending[key];
        else apply(listen, signal, ['abort', () => { delete pending[key]; }, {once: true}]);
      }
      return id;
    }});
  };
  const always = () => true, never = () => false;
  follow(window, 'setTimeout', 'timer', (delay) => !(delay > SOON));
  follow(window, 'setInterval', 'timer', never);
  follow(window, 'requestAnimationFrame', 'frame', always);
  follow(window, 'requestIdleCallback', 'idle', always);
  if (window.Scheduler?.prototype.postTask) follow(Scheduler.prototype, 'postTask', 'task', (options) => !(options?.delay > SOON));

  const forget = (name, kind) => {
    window[name] = new Proxy(window[name], {apply(native, self, args) {
      if (typeof args[0] === 'number') delete pending[kind + args[0]];
      return apply(native, self, args);
    }});
  };
  forget('clearTimeout', 'timer');
  forget('clearInterval', 'timer');
  forget('cancelAnimationFrame', 'frame');
  forget('cancelIdleCallback', 'idle');

  // A message is pending from its sending to its arrival at a port with a handler, which belongs to the sender's step.
  const links = new WeakMap(), {get, set} = WeakMap.prototype;
  const handlerOf = getOwnPropertyDescriptor(MessagePort.prototype, 'onmessage').get;
  const link = (from, to) => {
    const sent = {to, of: 0, count: 0, key: `port${++tasks}`, last() { running = null; }};
    apply(set, links, [from, sent]);
    apply(listen, to, ['message', () => {
      running = sent.of;
      if (sent.count > 0 && --sent.count === 0) delete pending[sent.key];
    }]);
  };
  window.MessageChannel = new Proxy(MessageChannel, {construct(native, args, target) {
    const channel = construct(native, args, target);
    link(channel.port1, channel.port2);
    link(channel.port2, channel.port1);
    return channel;
  }});
  MessageChannel.prototype.constructor = MessageChannel;
  MessagePort.prototype.postMessage = new Proxy(MessagePort.prototype.postMessage, {apply(native, self, args) {
    const sent = apply(get, links, [self]);
    if (sent && !sent.closed) {
      const of = running ?? step;
      if (of !== sent.of) sent.count = 0;
      sent.of = of;
      sent.count++;
      if (isOfStep(of) && apply(handlerOf, sent.to, [])) pending[sent.key] = true;
      apply(ignore, sent.to, ['message', sent.last]);
      apply(listen, sent.to, ['message', sent.last]);  // behind the page's own
    }
    return apply(native, self, args);
  }});

  MessagePort.prototype.close = new Proxy(MessagePort.prototype.close, {apply(native, self, args) {
    const sent = apply(get, links, [self]);
    for (const way of sent ? [sent, apply(get, links, [sent.to])] : []) {
      way.closed = true;
      delete pending[way.key];
    }
    return apply(native, self, args);
  }});

  // A page has an answer, and its body, later than the browser tells that the request is over.
  const {then} = Promise.prototype;
  const followPromise = (owner, name) => {
    owner[name] = new Proxy(owner[name], {apply(native, self, args) {
      const promise = apply(native, self, args);
      if (!isOfStep(running ?? step)) return promise;
      const key = `promise${++tasks}`;
      pending[key] = true;
      return apply(then, promise, [(value) => { delete pending[key]; return value; }, (error) => { delete pending[key]; throw error; }]);
    }});
  };
  followPromise(window, 'fetch');
  for (const name of ['arrayBuffer', 'blob', 'bytes', 'formData', 'json', 'text']) if (Response.prototype[name]) followPromise(Response.prototype, name);
  const {OPENED} = XMLHttpRequest, stateOf = getOwnPropertyDescriptor(XMLHttpRequest.prototype, 'readyState').get;
  XMLHttpRequest.prototype.send = new Proxy(XMLHttpRequest.prototype.send, {apply(native, self, args) {
    const sent = apply(native, self, args);
    if (!isOfStep(running ?? step) || apply(stateOf, self, []) !== OPENED) return sent;
    const key = `request${++tasks}`;
    pending[key] = true;
    apply(listen, self, ['loadend', () => { delete pending[key]; }, {once: true}]);
    return sent;
  }});

  addEventListener('PROBE-input', (event) => {
    apply(stop, event, []);
    if (observed) { observed = false; step++; pending = create(null); }
  }, true);
  addEventListener('PROBE-timers', (event) => {
    apply(stop, event, []);
    observed = true;
    running = null;  // though a listener may have kept a message from the last one
    for (const _ in pending) { apply(cancel, event, []); return; }
  }, true);
})()
