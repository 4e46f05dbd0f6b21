// Hears of presses from before the page's first script, and passes them to the in-page script while it expects one.
for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'auxclick', 'contextmenu', 'dblclick']) {
  addEventListener(type, (event) => pressed?.(event), true);
}
// Hears which fields the browser itself refuses when a form is to be sent.
addEventListener('invalid', (event) => { if (refusedFields.length < 20) refusedFields.push(event.target); }, true);
// Tells the page's main world (timers.js), there and around a frame, that there is input: once, until timers are asked about.
// What the mouse leaves hears first. `inputAt`: when that was, by the clock of the document's animations.
for (const type of ['pointerout', 'pointerover', 'pointermove', 'pointerdown', 'keydown', 'beforeinput', 'input', 'change', 'paste', 'wheel', 'dragover', 'drop']) {
  addEventListener(type, () => tellInput(window), {capture: true, passive: true});
}
function tellInput(win) {
  try {
    for (; ; win = win.parent) {
      if (!win.inputTold) {
        [win.inputTold, win.inputAt] = [true, win.document.timeline.currentTime];
        win.dispatchEvent(new Event('PROBE-input'));
      }
      if (win === win.parent) return;
    }
  } catch {
    // The page around is of another origin.
  }
}
// Hears of a drag that the browser begins, unless the page prevents that.
addEventListener('dragstart', (event) => { if (event.isTrusted) dragStarted = event; }, true);
var pressed = null, hearsPresses = true, refusedFields = [], dragStarted = null, inputTold = false, inputAt = Infinity;
