// Answers the in-page script's events PROBE... in the page's main world, by cancelling them: does an element have listeners
// for clicks, for the pointer, for what is dropped on it, for a kind of action that a page may answer late, for the end of
// its animations? PROBE-scroll: do listeners for scrolling, at it or around it, or observers of what comes into view follow
// when it is scrolled? PROBE-internals: what a custom element's ElementInternals say is written into the text that the event
// is related to.
((listenersOf) => {
  const path = Event.prototype.composedPath, stop = Event.prototype.stopImmediatePropagation;
  const cancel = Event.prototype.preventDefault, apply = Reflect.apply;
  const clicks = 'click mousedown mouseup pointerdown pointerup dblclick touchstart dragstart';
  const kinds = {
    '': clicks,
    '-pointer': clicks + ' mouseenter mouseover pointerenter pointerover',
    '-drop': 'drop dragover',
    '-enter': 'keydown keypress keyup submit change',
    '-button': 'click mousedown mouseup pointerdown pointerup submit',
    '-text': 'input keyup keydown keypress change',
    '-end': 'transitionend animationend',
  };
  for (const kind in kinds) {
    const types = kinds[kind].split(' ');
    addEventListener('PROBE' + kind, (event) => {
      apply(stop, event, []);
      const all = listenersOf(apply(path, event, [])[0]);
      for (const type of types) if (all[type]) { apply(cancel, event, []); return; }
    }, true);
  }

  const given = new WeakMap(), set = WeakMap.prototype.set, get = WeakMap.prototype.get;
  const related = Object.getOwnPropertyDescriptor(MouseEvent.prototype, 'relatedTarget').get;
  const write = Object.getOwnPropertyDescriptor(CharacterData.prototype, 'data').set, stringify = JSON.stringify;
  const fields = Object.entries(Object.getOwnPropertyDescriptors(ElementInternals.prototype)).filter(([, field]) => field.get);
  const attach = Object.getOwnPropertyDescriptor(HTMLElement.prototype, 'attachInternals');
  // A proxy of the native function still prints as native code.
  const value = new Proxy(attach.value, {apply(native, host, all) {
    const internals = apply(native, host, all);
    apply(set, given, [host, internals]);
    return internals;
  }});
  Object.defineProperty(HTMLElement.prototype, 'attachInternals', {...attach, value});
  addEventListener('PROBE-internals', (event) => {
    apply(stop, event, []);
    const internals = apply(get, given, [apply(path, event, [])[0]]);
    if (!internals) return;
    const told = {__proto__: null};
    for (let i = 0; i < fields.length; i++) {
      let said = null;
      try { said = apply(fields[i][1].get, internals, []); } catch { /* only of elements that take part in forms */ }
      if (typeof said === 'string' && said) told[fields[i][0]] = said;
    }
    apply(write, apply(related, event, []), [stringify(told)]);
  }, true);

  const {observe} = IntersectionObserver.prototype;
  let hasObservers = document.readyState !== 'loading';  // of a document that was there before, it isn't known
  IntersectionObserver.prototype.observe = new Proxy(observe, {apply(native, self, args) {
    hasObservers = true;
    return apply(native, self, args);
  }});
  addEventListener('PROBE-scroll', (event) => {
    apply(stop, event, []);
    const around = apply(path, event, []);
    let follows = hasObservers;
    for (let i = 0; i < around.length && !follows; i++) follows = 'scroll' in listenersOf(around[i]);
    if (follows) apply(cancel, event, []);
  }, true);
})(getEventListeners)
