// What actions need of the page: where to point the mouse, and what is done by the page's own means.

const describe = (el) => el.localName + (el.id ? '#' + el.id : '') + (typeof el.className === 'string' && el.className.trim() ? '.' + el.className.trim().split(/\s+/)[0] : '');

// Where to point the mouse to reach the element, in coordinates of this document's viewport.
function locate({id, hover}) {
  const {el, error} = find(id);
  if (error) return {error};
  if (!hover && (el.matches(':disabled') || el.getAttribute('aria-disabled') === 'true')) return {error: 'disabled'};
  let target = el;
  let rect = target.getBoundingClientRect();
  if ((rect.width === 0 || rect.height === 0) && el.labels?.length) { target = el.labels[0]; rect = target.getBoundingClientRect(); }
  if (getComputedStyle(target).visibility !== 'visible' || target.getClientRects().length === 0) return {error: 'hidden'};
  const win = target.ownerDocument.defaultView;
  const inside = (r) => { const x = r.left + r.width / 2, y = r.top + r.height / 2; return x >= 0 && y >= 0 && x < win.innerWidth && y < win.innerHeight; };
  const [fx, fy] = frameOffset(target);
  const onScreen = rect.left + rect.width / 2 + fx >= 0 && rect.top + rect.height / 2 + fy >= 0 && rect.left + rect.width / 2 + fx < innerWidth && rect.top + rect.height / 2 + fy < innerHeight;
  let scrolled = false;
  if (!inside(rect) || !onScreen || reaches(target, rect.left + rect.width / 2, rect.top + rect.height / 2) !== true) {
    const before = rect.top + ',' + rect.left;
    if (!inside(rect) || !onScreen || !points(target).some(([x, y]) => reaches(target, x, y) === true)) target.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    rect = target.getBoundingClientRect();
    scrolled = before !== rect.top + ',' + rect.left;
  }
  const [ox, oy] = frameOffset(target);
  let blocker = null;
  for (const [x, y] of points(target)) {
    const hit = reaches(target, x, y);
    if (hit === true || (target !== el && hit && isInside(hit, target))) return {x: x + ox, y: y + oy, scrolled};
    if (hit && !blocker) blocker = hit;
  }
  const [x, y] = points(target)[0];
  return {x: x + ox, y: y + oy, scrolled, covered: blocker ? describe(blocker) : 'nothing visible'};
}

function points(el) {
  const rect = el.getBoundingClientRect();
  const out = [[rect.left + rect.width / 2, rect.top + rect.height / 2]];
  for (const r of Array.from(el.getClientRects()).slice(0, 4)) out.push([r.left + r.width / 2, r.top + r.height / 2]);
  for (const [fx, fy] of [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75], [0.5, 0.1], [0.5, 0.9]]) out.push([rect.left + rect.width * fx, rect.top + rect.height * fy]);
  return out;
}

const fire = (el, ...types) => { for (const type of types) el.dispatchEvent(new Event(type, {bubbles: true, composed: true})); };

function domClick({id}) {
  const {el, error} = find(id);
  if (error) return {error};
  if (el.click) el.click();
  else el.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true, composed: true, view: el.ownerDocument.defaultView}));
  return {};
}

// Gets a field ready for its text: focuses it and selects what it holds; sets picker-like inputs at once.
function prepareFill({id, text}) {
  let {el, error} = find(id);
  if (error) return {error};
  if (el.localName === 'label' && el.control) el = el.control;
  if (el.matches(':disabled') || el.getAttribute('aria-disabled') === 'true') return {error: 'disabled'};
  if (el.readOnly) return {error: 'readonly'};
  el.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  if (el.localName === 'input' && VALUE_TYPES.has(el.type)) {
    el.focus();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(el, text);
    if (el.value === '' && text !== '') return {error: 'format', type: el.type};
    fire(el, 'input', 'change');
    return {done: true};
  }
  if (el.localName === 'textarea' || (el.localName === 'input' && TEXT_TYPES.has(el.type))) {
    el.focus();
    el.select();
    return {empty: el.value === ''};
  }
  if (el.isContentEditable) {
    el.focus();
    const selection = el.ownerDocument.getSelection();
    selection.selectAllChildren(el);
    return {empty: el.textContent === ''};
  }
  return {error: 'kind', kind: roleOf(el)};
}

function select({id, options}) {
  const {el, error} = find(id);
  if (error) return {error};
  if (el.localName !== 'select') return {error: 'kind', kind: roleOf(el)};
  if (el.matches(':disabled')) return {error: 'disabled'};
  const all = Array.from(el.options);
  const wanted = [];
  for (const option of options) {
    const match = all.find((o) => squeeze(o.label) === squeeze(option)) || all.find((o) => o.value === option) ||
      all.find((o) => squeeze(o.label).toLowerCase() === squeeze(option).toLowerCase());
    if (!match) return {error: 'option', option, options: all.slice(0, 20).map((o) => squeeze(o.label))};
    if (match.disabled) return {error: 'disabled'};
    wanted.push(match);
  }
  if (wanted.length > 1 && !el.multiple) return {error: 'single'};
  el.focus();
  for (const option of all) option.selected = wanted.includes(option);
  fire(el, 'input', 'change');
  return {};
}

function focus({id}) {
  const {el, error} = find(id);
  if (error) return {error};
  el.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  el.focus();
  return {};
}

function scrollableAt(el) {
  for (let node = el; node; node = parentAcross(node)) {
    const style = getComputedStyle(node);
    const y = node.scrollHeight > node.clientHeight && /auto|scroll|overlay/.test(style.overflowY);
    const x = node.scrollWidth > node.clientWidth && /auto|scroll|overlay/.test(style.overflowX);
    if (y || x || node.localName === 'textarea') return node;
  }
  return null;
}

function scroll({id, dx, dy}) {
  let target = null;
  if (id !== null) {
    const {el, error} = find(id);
    if (error) return {error};
    target = scrollableAt(el) || el.ownerDocument.scrollingElement;
  } else {
    const root = document.scrollingElement;
    const free = root && (root.scrollHeight > root.clientHeight || root.scrollWidth > root.clientWidth);
    target = free ? root : scrollableAt(deepest(document, innerWidth / 2, innerHeight / 2)) || root;
  }
  const before = target.scrollLeft + ',' + target.scrollTop;
  target.scrollBy({left: dx, top: dy, behavior: 'instant'});
  return {moved: before !== target.scrollLeft + ',' + target.scrollTop};
}
