// The in-page half of the environment: sees the page and finds elements in it. Evaluates to an object whose
// methods the Python side calls; the page has no name for it. One a document; same-origin frames and open
// shadow roots are walked from their top document, in one pass.
//
// It never writes to the page, except for `stamp` (on request) and what an action asks for.
(listenersOf) => {
  let ids = new WeakMap();
  const byId = new Map();
  let nextId = 1;
  let watcher = null;
  let mutations = 0;

  const INTERACTIVE_ROLES = new Set(('button checkbox combobox gridcell link listbox menuitem menuitemcheckbox ' +
    'menuitemradio option radio scrollbar searchbox slider spinbutton switch tab textbox treeitem').split(' '));
  const NAMED_BY_CONTENT = new Set(('button cell checkbox columnheader gridcell heading link menuitem ' +
    'menuitemcheckbox menuitemradio option radio row rowheader switch tab tooltip treeitem').split(' '));
  const STRUCTURE = new Set(('alert alertdialog article banner cell columnheader complementary contentinfo dialog ' +
    'figure form grid group heading img list listitem log main menu menubar meter navigation progressbar ' +
    'radiogroup region row rowheader search status table tablist tabpanel toolbar tree').split(' '));
  const INPUT_ROLES = {button: 'button', checkbox: 'checkbox', email: 'textbox', image: 'button', number: 'spinbutton',
    radio: 'radio', range: 'slider', reset: 'button', search: 'searchbox', submit: 'button', tel: 'textbox',
    text: 'textbox', url: 'textbox', password: 'textbox', file: 'button', color: 'color', date: 'date',
    'datetime-local': 'datetime', month: 'month', time: 'time', week: 'week'};
  const TAG_ROLES = {article: 'article', aside: 'complementary', button: 'button', details: 'group', dialog: 'dialog',
    dd: 'definition', dt: 'term', fieldset: 'group', figure: 'figure', h1: 'heading', h2: 'heading', h3: 'heading',
    h4: 'heading', h5: 'heading', h6: 'heading', hr: 'separator', li: 'listitem', main: 'main', menu: 'list',
    meter: 'meter', nav: 'navigation', ol: 'list', optgroup: 'group', option: 'option', output: 'status',
    p: 'paragraph', progress: 'progressbar', summary: 'button', table: 'table', td: 'cell', textarea: 'textbox',
    th: 'columnheader', tr: 'row', ul: 'list', canvas: 'canvas', svg: 'graphic', video: 'video', audio: 'audio'};
  const TEXT_TYPES = new Set('email number password search tel text url'.split(' '));
  const VALUE_TYPES = new Set('color date datetime-local month range time week'.split(' '));
  const SKIP = new Set('SCRIPT STYLE NOSCRIPT TEMPLATE HEAD META LINK TITLE BASE SOURCE TRACK PARAM'.split(' '));
  const CLICKS = ['click', 'mousedown', 'mouseup', 'pointerdown', 'pointerup', 'dblclick', 'touchstart', 'dragstart'];

  const squeeze = (text) => text.replace(/[\s\u00a0\u200b]+/g, ' ').trim();
  const clip = (text, limit) => text.length > limit ? text.slice(0, limit - 1) + '\u2026' : text;
  const byIdRef = (el, attribute) => (el.getAttribute(attribute) || '').split(/\s+/).filter(Boolean)
    .map((id) => el.getRootNode().getElementById?.(id)).filter(Boolean);

  function idOf(el) {
    let id = ids.get(el);
    if (id === undefined) {
      id = nextId++;
      ids.set(el, id);
      byId.set(id, new WeakRef(el));
    }
    return id;
  }

  function roleOf(el) {
    const explicit = el.getAttribute('role');
    if (explicit) {
      const first = explicit.trim().split(/\s+/)[0].toLowerCase();
      if (first && first !== 'presentation' && first !== 'none') return first;
    }
    const tag = el.localName;
    if (tag === 'a' || tag === 'area') return el.hasAttribute('href') ? 'link' : 'generic';
    if (tag === 'input') return el.type === 'hidden' ? 'generic' : el.list ? 'combobox' : INPUT_ROLES[el.type] || 'textbox';
    if (tag === 'select') return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    if (tag === 'img') return el.getAttribute('alt') === '' ? 'generic' : 'img';
    if (tag === 'section') return el.hasAttribute('aria-label') || el.hasAttribute('aria-labelledby') ? 'region' : 'generic';
    if (tag === 'form') return 'form';
    if (tag === 'header' || tag === 'footer') {
      return el.closest('article, aside, main, nav, section') ? 'generic' : tag === 'header' ? 'banner' : 'contentinfo';
    }
    if (el.isContentEditable && !el.parentElement?.isContentEditable) return 'textbox';
    return TAG_ROLES[tag] || 'generic';
  }

  // Text that a reader would hear inside an element: visible text, alternative texts, labels.
  function contentText(el, depth = 0) {
    let out = '';
    const parent = el.shadowRoot || el;
    for (const child of parent.childNodes) {
      if (child.nodeType === 3) { out += child.data; continue; }
      if (child.nodeType !== 1 || SKIP.has(child.tagName) || depth > 20) continue;
      if (child.getAttribute('aria-hidden') === 'true') continue;
      const label = child.getAttribute('aria-label');
      if (label) { out += ' ' + label + ' '; continue; }
      if (child.localName === 'img') { out += ' ' + (child.getAttribute('alt') || '') + ' '; continue; }
      if (child.localName === 'br') { out += ' '; continue; }
      if (child.localName === 'select' || child.localName === 'textarea') continue;
      if (child.localName === 'svg') { out += ' ' + (child.querySelector(':scope > title')?.textContent || '') + ' '; if (!child.querySelector('text')) continue; }
      if (child.localName === 'slot') { for (const node of child.assignedNodes()) out += node.nodeType === 3 ? node.data : contentText(node, depth + 1); continue; }
      const style = getComputedStyle(child);
      if (style.display === 'none' || style.visibility === 'hidden') continue;
      const inner = contentText(child, depth + 1);
      out += style.display.startsWith('inline') ? inner : ' ' + inner + ' ';
      if (out.length > 2000) break;
    }
    return out;
  }

  function nameOf(el, role, interactive) {
    const referred = byIdRef(el, 'aria-labelledby');
    if (referred.length) {
      const text = squeeze(referred.map((r) => r.getAttribute('aria-label') || contentText(r)).join(' '));
      if (text) return text;
    }
    const label = el.getAttribute('aria-label');
    if (label && label.trim()) return squeeze(label);
    const tag = el.localName;
    if (tag === 'input' && (el.type === 'submit' || el.type === 'reset' || el.type === 'button')) {
      const text = squeeze(el.value || el.title || '');
      return text || (el.type === 'submit' ? 'Submit' : el.type === 'reset' ? 'Reset' : '');
    }
    if (tag === 'input' && el.type === 'image') return squeeze(el.alt || el.title || 'Submit');
    if (el.labels && el.labels.length) {
      const text = squeeze(Array.from(el.labels, (l) => contentText(l)).join(' '));
      if (text) return text;
    }
    if (tag === 'img' || tag === 'area') { const alt = el.getAttribute('alt'); if (alt) return squeeze(alt); }
    if (tag === 'fieldset') { const legend = el.querySelector(':scope > legend'); if (legend) return squeeze(contentText(legend)); }
    if (tag === 'table') { const caption = el.querySelector(':scope > caption'); if (caption) return squeeze(contentText(caption)); }
    if (tag === 'figure') { const caption = el.querySelector(':scope > figcaption'); if (caption) return squeeze(contentText(caption)); }
    if (el.namespaceURI === 'http://www.w3.org/2000/svg') {
      const title = el.querySelector(':scope > title');
      if (title) return squeeze(title.textContent);
      if (tag === 'text' || tag === 'tspan' || tag === 'g') return squeeze(el.textContent);
    }
    if (NAMED_BY_CONTENT.has(role) || (interactive && role === 'generic')) {
      const text = squeeze(contentText(el));
      if (text) return text;
    }
    return squeeze(el.title || el.placeholder || el.getAttribute?.('aria-placeholder') || '');
  }

  function valueOf(el, role) {
    const tag = el.localName;
    if (tag === 'input') {
      if (el.type === 'checkbox' || el.type === 'radio' || el.type === 'submit' || el.type === 'button' ||
          el.type === 'reset' || el.type === 'image') return '';
      if (el.type === 'password') return '\u2022'.repeat(el.value.length);
      if (el.type === 'file') return Array.from(el.files, (f) => f.name).join(', ');
      return el.value;
    }
    if (tag === 'textarea') return el.value;
    if (tag === 'select') return Array.from(el.selectedOptions, (o) => squeeze(o.label)).join(', ');
    if (tag === 'progress' || tag === 'meter') return String(el.value);
    if (el.isContentEditable && role === 'textbox') return squeeze(el.innerText);
    return el.getAttribute('aria-valuetext') || el.getAttribute('aria-valuenow') || '';
  }

  function statesOf(el, role, covered, focused) {
    const out = [];
    const aria = (name) => el.getAttribute('aria-' + name);
    if (el.checked === true && (el.type === 'checkbox' || el.type === 'radio') || aria('checked') === 'true') out.push('checked');
    if (aria('checked') === 'mixed' || el.indeterminate) out.push('mixed');
    if (aria('selected') === 'true' || (el.localName === 'option' && el.selected)) out.push('selected');
    if (aria('pressed') === 'true') out.push('pressed');
    const open = aria('expanded');
    if (open === 'true' || (el.localName === 'summary' && el.parentElement?.open)) out.push('expanded');
    else if (open === 'false' || (el.localName === 'summary' && el.parentElement?.open === false)) out.push('collapsed');
    if (el.matches(':disabled') || aria('disabled') === 'true') out.push('disabled');
    if (el.readOnly === true && (el.localName === 'textarea' || TEXT_TYPES.has(el.type) || VALUE_TYPES.has(el.type)) ||
        aria('readonly') === 'true') out.push('readonly');
    if (el.required || aria('required') === 'true') out.push('required');
    if (aria('invalid') === 'true') out.push('invalid');
    const current = aria('current');
    if (current && current !== 'false') out.push('current');
    if (el === focused) out.push('focused');
    if (covered) out.push('covered');
    return out;
  }

  function listens(el) {
    if (el.onclick || el.onmousedown || el.onmouseup || el.onpointerdown || el.ondblclick) return true;
    if (!listenersOf) return false;
    const all = listenersOf(el);
    return CLICKS.some((type) => all[type]);
  }

  function parentAcross(el) {
    return el.assignedSlot || el.parentElement || el.getRootNode().host || null;
  }

  function isInside(el, ancestor) {
    for (let node = el; node; node = parentAcross(node)) if (node === ancestor) return true;
    return false;
  }

  function deepest(doc, x, y) {
    let hit = doc.elementFromPoint(x, y);
    while (hit && hit.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  }

  // Does a click at this point of the element's own document reach the element (or a label of it)?
  function reaches(el, x, y) {
    const hit = deepest(el.ownerDocument, x, y);
    if (!hit) return null;
    if (isInside(hit, el)) return true;
    const label = hit.closest?.('label');
    return label && label.control === el ? true : hit;
  }

  function frameOffset(el) {
    let x = 0, y = 0;
    for (let win = el.ownerDocument.defaultView; win && win !== window; win = win.parent) {
      const holder = win.frameElement;
      if (!holder) break;
      const rect = holder.getBoundingClientRect();
      x += rect.left + holder.clientLeft;
      y += rect.top + holder.clientTop;
    }
    return [x, y];
  }

  function focusedElement() {
    let focused = document.activeElement;
    for (;;) {
      let inner = null;
      try { inner = focused?.shadowRoot?.activeElement || focused?.contentDocument?.activeElement; } catch { /* another origin */ }
      if (!inner || inner === focused) return focused;
      focused = inner;
    }
  }

  function observe({firstId, stamp, origin}) {
    nextId = Math.max(nextId, firstId);
    const [originX, originY] = origin || [0, 0];
    const elements = [];
    const lines = [];
    const opaque = [];
    const focused = focusedElement();
    const width = innerWidth, height = innerHeight;
    let text = '';

    const distanceOf = (rect, ox, oy) => {
      const top = rect.top + oy, left = rect.left + ox;
      const dy = top > height ? top - height : top + rect.height < 0 ? -(top + rect.height) : 0;
      const dx = left > width ? left - width : left + rect.width < 0 ? -(left + rect.width) : 0;
      return dx + dy;
    };

    function flush(depth) {
      const squeezed = squeeze(text);
      text = '';
      if (squeezed) lines.push([depth, squeezed, -1, textDistance]);
    }
    let textDistance = 0;

    function addElement(el, role, depth, rect, ox, oy, frame) {
      const id = idOf(el);
      if (stamp) el.setAttribute('data-agent-id', String(id));
      const distance = distanceOf(rect, ox, oy);
      const shown = distance === 0;
      let covered = false;
      if (shown) {
        const cx = rect.left + rect.width / 2, cy = rect.top + rect.height / 2;
        if (cx >= 0 && cy >= 0 && cx < (el.ownerDocument.defaultView.innerWidth) && cy < el.ownerDocument.defaultView.innerHeight) {
          covered = reaches(el, cx, cy) !== true;
          if (covered) { const first = el.getClientRects()[0]; covered = !first || reaches(el, first.left + first.width / 2, first.top + first.height / 2) !== true; }
        }
      }
      const name = clip(nameOf(el, role, true), 300);
      const options = el.localName === 'select' ? Array.from(el.options, (o) => squeeze(o.label)) : [];
      elements.push([id, role, name, el.localName, clip(valueOf(el, role), 1000), statesOf(el, role, covered, focused),
        [rect.left + ox, rect.top + oy, rect.width, rect.height].map((v) => Math.round(v * 100) / 100), shown, frame, options]);
      lines.push([depth, null, elements.length - 1, distance]);
      return name;
    }

    // Walks `node`'s children; returns nothing, appends lines. `quiet`: the text is already part of a name above.
    function walk(node, depth, ox, oy, frame, quiet, pointer) {
      const children = node.localName === 'slot' && node.assignedNodes().length ? node.assignedNodes() : (node.shadowRoot || node).childNodes;
      for (const child of children) {
        if (child.nodeType === 3) {
          if (!quiet && /\S/.test(child.data)) {
            if (!text) { textDistance = distanceOf(child.parentElement?.getBoundingClientRect() || new DOMRect(), ox, oy); }
            text += child.data;
          }
          else if (text) text += ' ';
          continue;
        }
        if (child.nodeType === 1 && !SKIP.has(child.tagName)) visit(child, depth, ox, oy, frame, quiet, pointer);
      }
    }

    function visit(el, depth, ox, oy, frame, quiet, pointer) {
      const style = getComputedStyle(el);
      if (style.display === 'none') return;
      const contents = style.display === 'contents';
      const rect = el.getBoundingClientRect();
      const tag = el.localName;
      const visible = style.visibility === 'visible';
      const role = roleOf(el);
      const block = !style.display.startsWith('inline') && !contents;
      const hasPointer = style.cursor === 'pointer';
      const svgChild = el.namespaceURI === 'http://www.w3.org/2000/svg' && tag !== 'svg';

      if (tag === 'iframe' || tag === 'frame') {
        flush(depth);
        if (!visible || !rect.width || !rect.height) return;
        let inner = null;
        try { inner = el.contentDocument; } catch { /* another origin */ }
        if (!inner) {
          opaque.push([lines.length, depth, [rect.left + ox + el.clientLeft, rect.top + oy + el.clientTop]]);
          return;
        }
        const title = squeeze(el.title || el.getAttribute('aria-label') || inner.title || '');
        lines.push([depth, 'iframe' + (title ? ' ' + JSON.stringify(clip(title, 100)) : ''), -1, distanceOf(rect, ox, oy)]);
        if (inner.body) { walk(inner.body, depth + 1, ox + rect.left + el.clientLeft, oy + rect.top + el.clientTop, inner.URL, false, false); flush(depth + 1); }
        return;
      }

      let interactive = false;
      const clipped = rect.width === 0 || rect.height === 0;
      const behindLabel = (tag === 'input') && (el.type === 'checkbox' || el.type === 'radio') && el.labels?.length;
      if (visible && (!clipped || behindLabel || (svgChild && (rect.width || rect.height))) && style.pointerEvents !== 'none' || (behindLabel && visible)) {
        if (tag === 'input') interactive = el.type !== 'hidden';
        else if (INTERACTIVE_ROLES.has(role) && !(tag === 'option' && el.closest('select'))) interactive = true;
        else if (tag === 'select' || tag === 'textarea' || tag === 'summary') interactive = true;
        else if (role === 'textbox') interactive = true;
        else if (el.hasAttribute('tabindex') && el.tabIndex >= 0) interactive = !el.querySelector('a[href], button, input, select, textarea, [tabindex]');
        else if (tag !== 'body' && tag !== 'html' && tag !== 'label' && listens(el)) {
          interactive = svgChild || tag === 'svg' || tag === 'canvas' || !el.querySelector('a[href], button, input, select, textarea, [onclick], [role=button], [role=link], [role=tab], [tabindex]');
          if (interactive && !svgChild && tag !== 'canvas' && el.firstElementChild) interactive = !delegates(el);
        }
        else if (hasPointer && !pointer && tag !== 'label' && tag !== 'body' && tag !== 'html') interactive = !el.querySelector('a[href], button, input, select, textarea');
        else if (el.draggable && tag !== 'img' && tag !== 'a') interactive = true;
      }

      if (interactive) {
        flush(depth);
        const name = addElement(el, role, depth, rect, ox, oy, frame);
        if (tag === 'select') {
          for (const option of el.options) lines.push([depth + 1, 'option ' + JSON.stringify(clip(squeeze(option.label), 100)) + (option.selected ? ' selected' : '') + (option.disabled ? ' disabled' : ''), -1, distanceOf(rect, ox, oy)]);
          return;
        }
        if (tag === 'textarea' || tag === 'input') return;
        walk(el, depth + 1, ox, oy, frame, quiet || name !== '' || role === 'textbox', hasPointer);
        flush(depth + 1);
        return;
      }

      if (visible && STRUCTURE.has(role) && !quiet && (rect.width || rect.height || contents)) {
        flush(depth);
        const name = role === 'row' || role === 'cell' ? squeeze(el.getAttribute('aria-label') || '') : clip(nameOf(el, role, false), 300);
        const level = role === 'heading' ? ' level=' + (el.getAttribute('aria-level') || tag.slice(1) || 2) : '';
        const value = role === 'progressbar' || role === 'meter' ? ' value=' + JSON.stringify(valueOf(el, role)) : '';
        lines.push([depth, role + (name ? ' ' + JSON.stringify(name) : '') + value + level, -1, distanceOf(rect, ox, oy)]);
        const before = lines.length;
        walk(el, depth + 1, ox, oy, frame, NAMED_BY_CONTENT.has(role) && name !== '', hasPointer);
        flush(depth + 1);
        fold(before, depth);
        return;
      }
      if (block) flush(depth);
      const mute = !visible && !el.childElementCount;
      const said = tag === 'label' && el.control && el.control.type !== 'hidden' && nameOf(el.control, roleOf(el.control), true) === squeeze(contentText(el));
      if (!mute) walk(el, depth, ox, oy, frame, quiet || !visible || said, hasPointer);
      else if (text) text += ' ';
      if (block) flush(depth); else if (tag === 'br') text += ' ';
    }

    // A container with one line of plain text in it, or nothing, is one line.
    function fold(before, depth) {
      const own = lines[before - 1];
      const added = lines.length - before;
      const bare = /^[a-z]+$/.test(own[1]);
      if (added === 0 && bare) lines.splice(before - 1, 1);
      else if (added === 1 && bare && lines[before][2] === -1 && lines[before][0] === depth + 1) {
        own[1] += ': ' + lines[before][1];
        lines.pop();
      }
    }

    // Listeners further down take the clicks themselves, so this one only delegates.
    function delegates(el) {
      const all = el.getElementsByTagName('*');
      const limit = Math.min(all.length, 200);
      for (let i = 0; i < limit; i++) {
        const inner = all[i];
        if (inner.localName === 'svg' || inner.localName === 'canvas' || listens(inner)) return true;
      }
      return limit > 30;
    }

    for (const part of document.documentElement?.children || []) {
      if (!SKIP.has(part.tagName)) { visit(part, 0, originX, originY, origin ? document.URL : '', false, false); flush(0); }
    }
    return JSON.stringify({
      url: document.URL, title: document.title, elements, lines, opaque, nextId,
      text: document.body ? document.body.innerText : '',
      scroll: [scrollX, scrollY, document.documentElement.scrollWidth, document.documentElement.scrollHeight, width, height],
    });
  }

  function find(id) {
    const el = byId.get(id)?.deref();
    if (!el) return {error: 'unknown'};
    if (!el.isConnected || !el.ownerDocument.defaultView) return {error: 'gone'};
    return {el};
  }

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

  // Resolves when the DOM has been quiet for `frames` frames in a row, or after `bound` milliseconds.
  function settle({frames, bound}) {
    if (!watcher) {
      watcher = new MutationObserver((records) => { mutations += records.length; });
      watcher.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    }
    return new Promise((resolve) => {
      let quiet = 0;
      let seen = mutations;
      const end = performance.now() + bound;
      const tick = () => {
        mutations += watcher.takeRecords().length;
        quiet = mutations === seen ? quiet + 1 : 0;
        seen = mutations;
        if (quiet >= frames || performance.now() >= end) resolve(quiet >= frames);
        else next();
      };
      // A page in the background draws no frames: a timer stands in for them.
      const next = () => {
        let called = false;
        const once = () => { if (!called) { called = true; tick(); } };
        requestAnimationFrame(once);
        setTimeout(once, 50);
      };
      next();
    });
  }

  function node({id}) { const {el} = find(id); return el || null; }
  function forget() { ids = new WeakMap(); byId.clear(); nextId = 1; }

  return {observe, locate, domClick, prepareFill, select, focus, scroll, settle, node, forget};
}
