// The observation pass.

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
