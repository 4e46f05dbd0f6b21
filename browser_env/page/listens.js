// Does the page listen for this kind of action at the focused element or an ancestor? Runs in its main world.
hint => {
  let el = document.activeElement;
  for (let inner = el; inner; inner = el.shadowRoot?.activeElement || el.contentDocument?.activeElement) el = inner;
  const types = {
    enter: ['keydown', 'keypress', 'keyup', 'submit', 'change'],
    button: ['click', 'mousedown', 'mouseup', 'pointerdown', 'pointerup', 'submit'],
    text: ['input', 'keyup', 'keydown', 'keypress', 'change'],
  }[hint];
  for (let node = el; node; node = node.parentNode || node.host || (node === document ? window : null)) {
    const all = getEventListeners(node);
    if (types.some((type) => all[type])) return true;
    if (node === window) break;
  }
  return false;
}
