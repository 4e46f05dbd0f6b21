// Answers the in-page script's event PROBE in the page's main world: does an element have listeners for clicks, or, if the
// event bubbles, for what is dropped on it?
((listenersOf) => {
  const path = Event.prototype.composedPath, stop = Event.prototype.stopImmediatePropagation;
  const cancel = Event.prototype.preventDefault, apply = Reflect.apply;
  const types = 'click mousedown mouseup pointerdown pointerup dblclick touchstart dragstart'.split(' ');
  const drops = ['drop', 'dragover'];
  const bubbles = Object.getOwnPropertyDescriptor(Event.prototype, 'bubbles').get;
  addEventListener('PROBE', (event) => {
    apply(stop, event, []);
    const all = listenersOf(apply(path, event, [])[0]);
    for (const type of apply(bubbles, event, []) ? drops : types) if (all[type]) { apply(cancel, event, []); return; }
  }, true);
})(getEventListeners)
