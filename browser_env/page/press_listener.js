// Hears of presses from before the page's first script, and passes them to the in-page script while it expects one.
for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'auxclick', 'contextmenu', 'dblclick']) {
  addEventListener(type, (event) => pressed?.(event), true);
}
// Hears which fields the browser itself refuses when a form is to be sent.
addEventListener('invalid', (event) => { if (refusedFields.length < 20) refusedFields.push(event.target); }, true);
// Hears of a drag that the browser begins, unless the page prevents that.
addEventListener('dragstart', (event) => { if (event.isTrusted) dragStarted = event; }, true);
var pressed = null, hearsPresses = true, refusedFields = [], dragStarted = null;
