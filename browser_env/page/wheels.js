// Does the page take the wheel for itself at this point of the view? Runs in its main world. Uses dom.js.
(x, y) => {
  for (let el = DOC.elementFromPoint(document, x, y); el; el = aboveOf(el) || (typeOf(el) === 11 ? el.host : window)) {
    const all = getEventListeners(el);
    for (const type of ['wheel', 'mousewheel']) if (all[type]?.some((one) => !one.passive)) return true;
    if (el === window) break;
  }
  return false;
}
