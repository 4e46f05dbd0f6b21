// Answers the in-page script's events PROBE... in the page's main world, by cancelling them: does an element have listeners
// for clicks, for what is dropped on it, for a kind of action that a page may answer late, for the end of its animations?
// PROBE-scroll: do listeners for scrolling, at it or around it, or observers of what comes into view follow when it is
// scrolled?
((listenersOf) => {
  const path = Event.prototype.composedPath, stop = Event.prototype.stopImmediatePropagation;
  const cancel = Event.prototype.preventDefault, apply = Reflect.apply;
  const kinds = {
    '': 'click mousedown mouseup pointerdown pointerup dblclick touchstart dragstart',
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
