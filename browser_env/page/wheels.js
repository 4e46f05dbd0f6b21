// Does the page take the wheel for itself at this point of the view? Runs in its main world.
(x, y) => {
  for (let el = document.elementFromPoint(x, y); el; el = el.parentNode || el.host || (el === document ? window : null)) {
    const all = getEventListeners(el);
    for (const type of ['wheel', 'mousewheel']) if (all[type]?.some((one) => !one.passive)) return true;
    if (el === window) break;
  }
  return false;
}
