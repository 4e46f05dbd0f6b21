// Hears of presses from before the page's first script, and passes them to the in-page script while it expects one.
for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'auxclick', 'contextmenu', 'dblclick']) {
  addEventListener(type, (event) => pressed?.(event), true);
}
var pressed = null, hearsPresses = true;
