// Recording, second half: turns events (input_listener.js) into facts with element ids, and takes an observation at the
// very moment of the event, before any handler of the page has run.

function record({event, report, reach, limits}) {
  const top = window.top === window;
  const secrets = new WeakSet();
  let shown = (el) => ids.has(el);
  let edited = null;  // the field that is being written to
  let chosen = false;  // a key was pressed on a checkbox or radio, which causes the click that follows
  let key = null;  // a key that is an action only if the page handles it
  let turning = null;  // a scroller's position when the wheel began to turn

  const send = (kind, fact) => globalThis[report](JSON.stringify({kind, ...fact}));

  // In a frame of another origin, the ids are those of its last observation.
  function look() {
    if (!top) return null;
    const raw = pass({firstId: nextId, stamp: false, origin: null, screen: null, reach, limits});
    for (const el of suspects) asked.delete(el);  // the next regular pass has to find them again
    const all = new Set(raw.elements.map((one) => one[0]));
    shown = (el) => all.has(ids.get(el));
    return raw;
  }

  // The element of the observation that a hit element belongs to.
  function meant(el) {
    for (let node = el; node; node = parentAcross(node)) {
      if (shown(node)) return node;
      if (node.localName === 'label' && node.control && shown(node.control)) return node.control;
    }
    return null;
  }

  const inner = (el, x, y) => {  // closed shadow roots hide the hit element
    for (let root; (root = rootOf(el));) {
      const next = x === undefined ? root.activeElement : root.elementFromPoint(x, y);
      if (!next || next === el) break;
      el = next;
    }
    return el;
  };

  function controlOf(el) {
    if (el.localName === 'select' || el.localName === 'canvas' || el.localName === 'option') return el.localName === 'option' ? 'select' : el.localName;
    if (el.localName === 'textarea') return 'long';
    if (el.localName !== 'input') return el.isContentEditable ? 'long' : el.localName === 'label' && el.control ? controlOf(el.control) : '';
    if (el.type === 'file') return 'file';
    if (el.type === 'checkbox' || el.type === 'radio') return 'check';
    return VALUE_TYPES.has(el.type) ? 'value' : TEXT_TYPES.has(el.type) ? 'line' : '';
  }

  const PRIVATE = /password|one-time-code|cc-(number|csc)/;
  function isSecret(el) {
    if (el.type === 'password' || PRIVATE.test(el.autocomplete || '')) secrets.add(el);
    return secrets.has(el);
  }

  function describeTarget(el) {
    const found = meant(el);
    return {id: found ? idOf(found) : null, control: controlOf(el) || (found ? controlOf(found) : '')};
  }

  const at = (el, fact) => toTop(el, fact.x, fact.y);

  function press(el, fact) {
    turned();
    el = inner(el, fact.x, fact.y);
    const field = fieldOf(el);
    chosen = false;
    isSecret(field);
    const raw = look();
    edited = field === edited ? edited : null;
    send('press', {...describeTarget(el), at: at(el, fact), button: fact.button, held: fact.held, raw});
  }

  function release(el, fact) {
    el = inner(el, fact.x, fact.y);
    const found = meant(el), [x, y] = at(el, fact);
    const box = found ? found.getBoundingClientRect() : null;
    const near = box && Math.abs(fact.x - box.left - box.width / 2) <= box.width / 4 && Math.abs(fact.y - box.top - box.height / 2) <= box.height / 4;
    send('release', {id: found ? idOf(found) : null, at: [x, y], button: fact.button || 0, count: fact.detail || 1, near: !!near,
      selected: !DOC.getSelection(el.ownerDocument).isCollapsed});
  }

  function chord(fact) {
    const name = fact.key === ' ' ? 'Space' : fact.key;
    const held = fact.held.filter((one) => one !== 'Shift' || name.length > 1 || fact.held.length > 1);
    return [...held, name.length === 1 && held.length && !held.includes('Shift') ? name.toLowerCase() : name].join('+');
  }

  const PLAIN = new Set('Backspace Delete Home End ArrowLeft ArrowRight PageUp PageDown'.split(' '));
  const LETTERS = new Set('a c v x y z'.split(' '));
  const NO_KEY = new Set('Control Alt Shift Meta AltGraph CapsLock NumLock ScrollLock Dead Process Unidentified ContextMenu Fn Compose'.split(' '));
  const ARROWS = new Set(['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight']);
  const ALONE = new Set('Enter Escape Space Home End PageUp PageDown Backspace Delete'.split(' '));

  // What a key press is: '' nothing, 'act' an action, 'taken' an action if the page handles it, 'ready' the state before
  // a value changes, 'break' an action unless it causes a line break.
  function keyKind(control, type, fact) {
    const command = fact.held.some((one) => one !== 'Shift');
    const letter = fact.key.length === 1;
    if (control === 'line' || control === 'long') {
      if (letter && (!command || fact.held.includes('Control') && fact.held.includes('Alt'))) return '';
      if (PLAIN.has(fact.key) && !fact.held.includes('Alt') || command && LETTERS.has(fact.key.toLowerCase())) return '';
      if (fact.key === 'ArrowUp' || fact.key === 'ArrowDown') return command ? 'taken' : control === 'long' ? 'taken' : type === 'number' ? '' : 'act';
      if (fact.key === 'Enter') return control === 'long' && !command ? 'break' : 'act';
      return fact.key === 'Escape' ? 'act' : 'taken';
    }
    if (!command && fact.key !== 'Tab' && fact.key !== 'Escape') {
      if (control === 'select' || control === 'value') return fact.key === 'Enter' && control === 'value' ? 'act' : 'ready';
      if (control === 'check' && (fact.key === ' ' || ARROWS.has(fact.key))) return 'choose';
    }
    const name = fact.key === ' ' ? 'Space' : fact.key;
    return !command && (ALONE.has(name) || ARROWS.has(name)) ? 'act' : 'taken';
  }

  function keydown(el, fact) {
    if (NO_KEY.has(fact.key) || !fact.key) return;
    turned();
    el = inner(el);
    const field = el.isContentEditable || el.localName === 'input' || el.localName === 'textarea' ? fieldOf(el) : el;
    isSecret(field);
    const kind = keyKind(controlOf(field), field.type, fact);
    chosen = kind === 'choose';
    key = null;
    if (kind === '' || fact.repeat && kind === 'taken') return;
    const raw = look();
    const whole = el === DOC.body(el.ownerDocument) || el === DOC.documentElement(el.ownerDocument);
    const found = whole ? null : meant(field);
    const told = {id: found ? idOf(found) : null, control: controlOf(field), key: chord(fact), raw};
    if (kind === 'taken') { key = told; return; }
    if (kind === 'ready' || kind === 'choose') { send('before', told); return; }
    if (kind === 'act') edited = null;
    send(kind === 'break' ? 'break' : 'key', told);
  }

  function input(el, fact) {
    const field = fieldOf(inner(el));
    const control = controlOf(field);
    if (control === 'check' || control === 'select' || control === 'file' || control === '') return;
    const found = meant(field);
    const value = field.isContentEditable ? field.innerText.replace(/\n$/, '') : field.value;
    edited = field;
    send('input', {id: found ? idOf(found) : null, control, value, secret: isSecret(field), inputType: fact.inputType || '', data: fact.data || ''});
  }

  function change(el) {
    el = inner(el);
    const found = meant(el);
    const id = found ? idOf(found) : null;
    if (el.localName === 'select') send('select', {id, options: Array.from(el.selectedOptions, (option) => squeeze(option.label))});
    else if (el.localName === 'input' && el.type === 'file') send('files', {id, names: Array.from(el.files, (file) => file.name)});
  }

  // The wheel: the distance is reported when it has stopped, or before the next input.
  const STOPPED = 200;
  function turn(el, fact) {
    if (fact.held.includes('Control')) return;
    const deep = inner(el, fact.x, fact.y);
    const scroller = scrollableAt(deep) || DOC.scrollingElement(deep.ownerDocument);
    if (!scroller) return;
    if (turning && turning.scroller !== scroller) turned();
    if (!turning) {
      send('before', {raw: look()});
      const whole = scroller === DOC.scrollingElement(document);
      let found = whole ? null : meant(deep);
      if (found && (scrollableAt(found) || DOC.scrollingElement(found.ownerDocument)) !== scroller) found = null;
      if (!whole && !found) found = Array.from(scroller.querySelectorAll('*')).find((one) => shown(one)) || null;
      turning = {scroller, x: scroller.scrollLeft, y: scroller.scrollTop, id: found ? idOf(found) : null, timer: 0};
    }
    goingOn();
  }
  function goingOn() {
    if (!turning) return;
    clearTimeout(turning.timer);
    turning.timer = setTimeout(turned, STOPPED);
  }
  function turned() {
    if (!turning) return;
    const {scroller, x, y, id, timer} = turning;
    clearTimeout(timer);
    turning = null;
    const dx = Math.round(scroller.scrollLeft - x), dy = Math.round(scroller.scrollTop - y);
    if (dx || dy) send('scroll', {id, dx, dy});
  }

  // A script that is installed again in the same document replaces the previous one.
  globalThis[event]?.();
  globalThis[event] = () => removeEventListener(event, hear, true);
  addEventListener(event, hear, true);
  let ready = false;
  onIds.push(() => { ready = true; dispatch(window, new CustomEvent(`${event}:ready`)); });

  function hear(told) {
    if (!ready) return;  // input_listener.js keeps it
    told.preventDefault();
    const fact = JSON.parse(told.detail);
    if (fact.button > 2) return;  // a mouse's side buttons go back and forward, which the browser reports
    const el = nodeAt(fact.path) || (fact.type === 'taken' ? DOC.documentElement(document) : null);
    if (!el) return;
    switch (fact.type) {
      case 'mousedown': press(el, fact); break;
      case 'mouseup': release(el, fact); break;
      case 'contextmenu': send('menu', {}); break;
      case 'click': if (chosen && controlOf(el) === 'check') { send('check', describeTarget(el)); } break;
      case 'keydown': keydown(el, fact); break;
      case 'taken': if (key) { edited = null; send('key', key); } key = null; break;
      case 'beforeinput': {
        const field = fieldOf(inner(el));
        isSecret(field);
        if (field !== edited) { const raw = look(); send('before', {raw}); edited = field; }
        break;
      }
      case 'input': input(el, fact); break;
      case 'change': change(el); break;
      case 'dragstart': send('dragstart', {}); break;
      case 'drop': release(el, fact); break;
      case 'dragend': send('dragend', {}); break;
      case 'wheel': turn(el, fact); break;
      case 'scroll': goingOn(); break;
      case 'mousemove': send('here', {}); break;
    }
  }
}
