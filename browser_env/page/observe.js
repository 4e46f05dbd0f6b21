// The observation pass: walks the content in and near the viewport, once, in document order.

const FLAT_LISTS = 200;  // in lists with more children, the visible part is searched for instead of walking all
const OPTION_LINES = 100;
const LONGEST_LABEL = 300;  // characters of an option or a value that is read out
const DEEPEST = 300;  // nested elements; Chromium's stack holds some 700 of these calls
const DEEP = 'a[href], button, input, select, textarea, summary, [role=button], [role=link], [tabindex], [onclick], [contenteditable]';

// `reach`: how many viewport heights above and below the viewport are observed; null for the whole page.
// `origin`, `screen`: for a frame of another origin, its offset in the top frame and the top frame's size.
// `limits`: the most characters of a text's line, of all text, of the title and of an address.
// `seek`: what only the branches are walked for (`branches`); null for all.
function pass({firstId, stamp, origin, screen, reach, limits, seek}) {
  beginIds(firstId);
  const miss = missed();
  const readIn = readBack();
  purge();
  suspects = [];
  arriving = [];
  mouseless = [];
  plain = new Set();
  faults = [];
  const [originX, originY, originSX, originSY] = origin || [0, 0, 1, 1];
  const elements = [];
  const lines = [];
  const opaque = [];
  const words = [];
  const focused = focusedElement();
  const [width, height] = screen || [innerWidth, innerHeight];
  const root = DOC.scrollingElement(document) || DOC.documentElement(document);
  const band = reach === null || !root || root.scrollHeight <= height * (1 + reach) ? Infinity : height * reach;
  const kept = band === Infinity ? null : keepVisible();
  const branch = seek ? branches(seek) : null;
  const probed = new Map();
  const drawings = new Map();
  let text = '';
  let notes = [];  // where in `text` stand words of ours, each its start and end
  let swatches = {};
  let textDistance = 0;
  let cut = false;
  let ended = false;
  let level = 0;
  let textLength = 0;  // of `text`, with what was left out of it
  let written = 0;  // characters of the outline, about
  let spoken = 0;  // characters of `words`, with what was left out of them

  // Elements hit on a grid of points are in view, and so are their ancestors, wherever their own boxes are. The grid is
  // finer along the edges, where small things have fixed positions.
  function keepVisible() {
    const out = new Set();
    const probe = (x, y) => { for (let el = deepest(document, x, y); el && !out.has(el); el = parentAcross(el)) out.add(el); };
    for (let i = 0; i < 8; i++) for (let j = 0; j < 6; j++) probe(width * (i + 0.5) / 8, height * (j + 0.5) / 6);
    for (let x = 24; x < width; x += 40) { probe(x, 24); probe(x, height - 24); }
    for (let y = 64; y < height - 40; y += 40) { probe(24, y); probe(width - 24, y); }
    return out;
  }

  function clicks(el) {
    let answer = probed.get(el);
    if (answer === undefined) { answer = listens(el); probed.set(el, answer); }
    return answer;
  }

  function inDrawing(el) {
    const svg = el.ownerSVGElement;
    if (svg && !drawings.has(svg)) drawings.set(svg, isDrawing(svg, clicks));
    return drawings.get(svg);
  }

  // `at`: the document's offset in the top frame and its scale there, its frame's URL, its visible size, and the boxes
  // that clip flowing and positioned content (null: only the viewport does), in the document's coordinates.
  function distanceOf(rect, at) {
    const top = rect.top * at.sy + at.y, left = rect.left * at.sx + at.x;
    const bottom = top + rect.height * at.sy, right = left + rect.width * at.sx;
    const dy = top >= height ? top - height : bottom < 0 ? -bottom : 0;
    const dx = left >= width ? left - width : right < 0 ? -right : 0;
    let away = dx + dy;
    if (away === 0 && at.clip) {
      const c = at.clip;
      away = Math.max(0, c[1] - rect.bottom, rect.top - c[3], c[0] - rect.right, rect.left - c[2]);
    }
    return away;
  }

  function flush(depth) {
    if (!text) return;
    const squeezed = squeeze(text);
    const over = squeezed.length > limits.line || textLength > text.length;
    const pieces = squeezed && pageWrites(text, notes);
    text = '';
    notes = [];
    swatches = {};
    if (pieces) for (const [piece, ours] of pieces) lines.push([depth, ours ? piece : `text ${quoted(clip(piece, limits.line))}`, -1, textDistance]);
    else if (squeezed) lines.push([depth, over ? cutLine(squeezed.slice(0, limits.line), textLength) : textLine(squeezed), -1, textDistance]);
    written += Math.min(squeezed.length, limits.line);
    textLength = 0;
  }

  function addText(data) {
    textLength += data.length;
    const room = 4 * limits.line - text.length;  // blanks in a row count as one later
    text += data.length > room ? data.slice(0, Math.max(0, room)) : data;
  }

  // White space that the page keeps is not squeezed below.
  const KEPT = {' ': '\u0001', '\u00a0': '\u0001', '\t': '\u0002'};
  function addWords(data) {
    if (spoken <= limits.page) words.push(data.length > limits.page ? data.slice(0, limits.page + 1) : data);
    spoken += data.length;
  }

  // A small coloured box in the text, as in a legend; several equal ones in a row are counted.
  function addSwatch(color) {
    const again = swatches.color === color && !/\S/.test(text.slice(swatches.end));
    if (again) notes.pop();
    swatches = again ? {...swatches, count: swatches.count + 1} : {color, count: 1, start: text.length};
    text = text.slice(0, swatches.start);
    addNote(swatches.count > 1 ? ` (${swatches.count} ${color} boxes) ` : ` (${color} box) `);
    swatches.end = text.length;
  }

  function addNote(note) {
    if (note) notes.push([text.length, text.length + note.length]);
    text += note;
  }

  const isFree = covers();

  // Is it in view? And its state: `clipped` by something that does not scroll, `unclickable`, or `covered` and by what.
  function visibility(el, rect, at) {
    const c = at.clip;
    let l = Math.max(rect.left, 0, -at.x / at.sx, c ? c[0] : -1e9), t = Math.max(rect.top, 0, -at.y / at.sy, c ? c[1] : -1e9);
    let r = Math.min(rect.right, at.w, (width - at.x) / at.sx, c ? c[2] : 1e9), b = Math.min(rect.bottom, at.h, (height - at.y) / at.sy, c ? c[3] : 1e9);
    if (r - l <= 0 || b - t <= 0) {
      if (rect.width && rect.height && c && at.hard && (rect.left >= c[2] || rect.right <= c[0] || rect.top >= c[3] || rect.bottom <= c[1])) return [false, ['clipped']];
      return [false, []];
    }
    const middle = [l + (r - l) / 2, t + (b - t) / 2];
    const over = hits(el, ...middle);
    if (over === true) return [true, []];
    for (const part of Array.from(el.getClientRects()).slice(0, 3)) {
      l = Math.max(part.left, 0); t = Math.max(part.top, 0); r = Math.min(part.right, at.w); b = Math.min(part.bottom, at.h);
      const [x, y] = [l + (r - l) / 2, t + (b - t) / 2];
      if (r > l && b > t && (x !== middle[0] || y !== middle[1]) && hits(el, x, y) === true) return [true, []];
    }
    if (rect.width <= 1 || rect.height <= 1) return [true, ['clipped']];
    if (isFree(el, over, ...middle)) return [true, []];
    if (getComputedStyle(el).pointerEvents === 'none') { mouseless.push(el); return [true, ['unclickable']]; }
    return [true, over ? ['covered', 'by ' + called(over)] : ['covered']];
  }

  function addElement(el, role, depth, rect, at, name, value, source, isDrawn = true) {
    const id = idOf(el);
    if (stamp) el.setAttribute('data-agent-id', String(id));
    const [shown, why] = isDrawn ? visibility(source || el, rect, at) : [distanceOf(rect, at) === 0, ['unclickable']];
    const label = labelsIn(el);
    const options = optionsOf(el).map((o) => clip(label(o), LONGEST_LABEL));
    written += name.length + Math.min(value.length, 1000);
    for (const option of options) written += option.length;
    const states = [...statesOf(source || el, role, why, focused), ...notesOf(source || el, role, name, value)];
    if (isShape(el)) states.push(shapeText(el, getComputedStyle(el), rect, at.x, at.y));
    else if (isBare(el)) states.push(...[colorName(getComputedStyle(el).backgroundColor)].filter(Boolean));
    elements.push([id, role, name, el.localName, clipMiddle(value, 1000), states,
      [rect.left * at.sx + at.x, rect.top * at.sy + at.y, rect.width * at.sx, rect.height * at.sy].map((v) => Math.round(v * 100) / 100), shown, at.frame, options]);
    lines.push([depth, null, elements.length - 1, distanceOf(rect, at)]);
  }

  // Walks the children of `node`, as drawn. `keep`: whitespace is preserved; the other arguments as in visit.
  let walked = 0;
  const windows = [window];
  function walk(node, depth, at, quiet, pointer, inert, near, keep) {
    walked++;
    if (level >= DEEPEST) { shallow(node, depth, at, quiet, inert); return; }
    level++;
    walkIn(node, depth, at, quiet, pointer, inert, near, keep);
    level--;
  }

  // Below the depth that would exhaust the stack: elements that are interactive by their tag, and text, without hierarchy.
  function shallow(node, depth, at, quiet, inert) {
    if (!quiet) { addText(` ${textOf(node)} `); flush(depth); }
    addWords(textOf(node));
    const tree = treeOf(node);
    const found = typeOf(tree) === 9 ? DOC.querySelectorAll(tree, DEEP) : tree.querySelectorAll(DEEP);
    for (const el of found) {
      if (!isInside(el, node) || !el.getClientRects().length) continue;
      const role = roleOf(el);
      if (!inert) addElement(el, role, depth, el.getBoundingClientRect(), at, clip(nameOf(el, role, true), 300), valueOf(el, role), null);
    }
  }

  function walkIn(node, depth, at, quiet, pointer, inert, near, keep) {
    const inner = rootOf(node);
    if (inner) watch(inner);
    if (!inner && isSlot(node)) {
      const assigned = node.assignedNodes();
      if (assigned.length) { for (const child of assigned) step(child, depth, at, quiet, pointer, inert, false, keep); return; }
    }
    if (tagOf(node) === 'details' && node.open === false) {
      const summary = node.querySelector(':scope > summary');
      if (summary) visitSafely(summary, depth, at, quiet, pointer, inert, near);
      return;
    }
    let child = firstOf(inner || node);
    const long = kept && !near && !inner && tagOf(node) !== 'form' && node.childElementCount > FLAT_LISTS;
    const shown = long ? Array.from(kept).filter((el) => parentOf(el) === node) : [];
    if (long) { const first = firstNear(node.children, shown, at); cut = cut || first !== node.firstElementChild; child = first; }
    let far = 0, last = shown[0] || null;
    for (const el of shown) if (follows(last, el)) last = el;
    for (; child; child = nextOf(child)) {
      if (step(child, depth, at, quiet, pointer, inert, near, keep) !== BELOW) far = 0;
      else if (++far > 60 && long && !last) break;
      if (child === last) last = null;
    }
  }

  function step(child, depth, at, quiet, pointer, inert, near, keep) {
    if (written > limits.page || ended) return 0;
    const type = typeOf(child);
    if (type === 3) {
      const data = child.data;
      if (!/\S/.test(data)) { if (text) text += ' '; if (keep) addWords(data.replace(/[ \u00a0\t]/g, (blank) => KEPT[blank])); else words.push(' '); return 0; }
      if (!quiet) {
        if (!text) textDistance = near ? 0 : distanceOf(textRect(child), at);
        addText(data);
      }
      addWords(keep ? data.replace(/[ \u00a0\t]/g, (blank) => KEPT[blank]) : data.replace(/\n/g, ' '));
      return 0;
    }
    if (type !== 1) return 0;
    if (SKIP.has(child.tagName)) return 0;
    return visitSafely(child, depth, at, quiet, pointer, inert, near);
  }

  // Visits an element; a fault costs what it says itself, not what is in it.
  function visitSafely(el, depth, at, quiet, pointer, inert, near) {
    const [levelBefore, walkedBefore] = [level, walked];
    try {
      if (isForeign(el)) { walk(el, depth, at, quiet, pointer, inert, near, false); return 0; }
      if (tagOf(el) === 'form') return visitForm(el, depth, at, quiet, pointer, inert);
      return visit(el, depth, at, quiet, pointer, inert, near);
    } catch (error) {
      level = levelBefore;
      noteFault(el, error);
      if (walked === walkedBefore) walk(el, depth, at, quiet, pointer, inert, near, false);
      return 0;
    }
  }

  const range = DOC.createRange(document);
  function textRect(node) {
    if (band === Infinity) return parentOf(node) ? rectOf(parentOf(node)) : new DOMRect();
    range.selectNodeContents(node);
    return range.getBoundingClientRect();
  }

  // In a long list, the first child near the viewport: in flow by bisection; in columns one of those `shown` may be earlier.
  function firstNear(children, shown, at) {
    let low = 0, high = children.length;
    while (high - low > 8) {
      const middle = (low + high) >> 1;
      let probe = middle;
      while (probe < high && !children[probe].getClientRects().length) probe++;
      if (probe === high) { high = middle; continue; }
      if (children[probe].getBoundingClientRect().bottom * at.sy + at.y < -band) low = middle; else high = middle;
    }
    let first = children[low];
    for (const el of shown) if (follows(el, first)) first = el;
    for (let el = first; el && isNear(el, at); el = el.previousElementSibling) first = el;
    return first;
  }
  const follows = (one, other) => (placeOf(one, other) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
  const isNear = (el, at) => {
    const {top, bottom} = rectOf(el);
    return bottom * at.sy + at.y >= -band && top * at.sy + at.y <= height + band;
  };

  const BELOW = 1;
  const UNSEEN = 2;  // a `quiet` that ends where something is visible again

  // `quiet`: the text is already part of an ancestor's name, or UNSEEN; `pointer`: the cursor that is inherited; `inert`: nothing
  // inside can be acted on; `near`: all of its container is near the viewport. Returns BELOW if it is too far below to
  // be observed.
  function visit(el, depth, at, quiet, pointer, inert, near) {
    let box = null;
    if (kept && !near) {
      box = el.getBoundingClientRect();
      const top = box.top * at.sy + at.y, bottom = box.bottom * at.sy + at.y;
      const solid = box.height || box.width && !el.firstElementChild && !rootOf(el);  // what is in a flat one may lie anywhere
      if ((top > height + band || bottom < -band) && solid && !kept.has(el)) {
        const below = top > height + band;
        if (below || el.scrollHeight <= box.height + 1) { cut = true; return below ? BELOW : 0; }
      }
      near = top >= 0 && bottom <= height && box.height > 0 && el.scrollHeight <= box.height + 1 && !at.clip;
    }
    const style = getComputedStyle(el);
    const display = style.display;
    if (display === 'none' || el.localName === 'area') return 0;
    const contents = display === 'contents';
    const tag = el.localName;
    const visible = style.visibility === 'visible';
    if (visible && quiet === UNSEEN) quiet = false;
    const inline = display === 'inline';
    const block = !inline && !contents && !display.startsWith('inline');
    if (block && isLeftOut(el, style, depth)) return 0;
    const hand = style.cursor !== pointer && HANDS.test(style.cursor);
    const svgChild = tag !== 'svg' && el.namespaceURI === SVG;
    const role = roleOf(el);
    // Text formatting, the most common case, needs no box of its own.
    if (inline && role === 'generic' && !box && PHRASING.has(tag) && !hand && !el.hasAttribute('tabindex') && !el.inert && !clicks(el)) {
      if (visible && !quiet && isBare(el)) addNote(iconText(el));
      if (visible || el.childElementCount) walkText(el, depth, at, quiet, visible, style, inert, near); else if (text) text += ' ';
      return 0;
    }
    const rect = contents ? boxOf(el) : box || el.getBoundingClientRect();
    if (inert && el === at.modal) inert = false;
    if (el.inert && el.hasAttribute('inert')) inert = true;

    if (FRAMES.has(tag) && showsPage(el, tag)) { flush(depth); if (visible && rect.width && rect.height) enterFrame(el, depth, at, rect, inert); return 0; }
    if (block) words.push('\n');
    if (style.contentVisibility === 'hidden') return 0;

    const labelled = tag === 'input' && (el.type === 'checkbox' || el.type === 'radio' || el.type === 'file') && labelsOf(el).length > 0;
    const coming = tag === 'img' ? !el.complete : comes(el, style, rect);  // it has no box before it has been loaded
    if (coming && visible && !(rect.width && rect.height) && distanceOf(rect, at) === 0) arriving.push(el);
    const boxed = coming || rect.width > 0 && rect.height > 0 || (svgChild && (rect.width > 0 || rect.height > 0));
    const drawn = boxed || labelled || spills(el, rect);
    let interactive = false;
    if (visible && drawn) interactive = canBeActedOn(el, tag, role, style, svgChild, hand);
    else if (visible && !rect.width && !rect.height && INTERACTIVE_ROLES.has(role) && el.offsetWidth > 0) mouseless.push(el);  // it may be growing
    // A label represents its control if that is not drawn.
    let source = null;
    if (tag === 'label' && visible && boxed && el.control?.matches('button, input:not([type=hidden]), select, textarea') && !standsItself(el.control)) { source = el.control; interactive = true; }
    const clipped = inline || !el.firstElementChild && !el.shadowRoot ? at : clipFor(el, style, rect, at, display);
    near = near && clipped === at;

    if (interactive) {
      flush(depth);
      const shownRole = source ? roleOf(source) : tag === 'a' && role === 'generic' ? 'link' : role;
      const holds = shownRole === 'generic' && el.querySelector('a[href], button, input, select, textarea, [tabindex], [role]:not([role=presentation], [role=none], [role=img])') !== null;
      const whole = nameOf(source || el, shownRole, !holds), name = clip(whole, 300);
      const value = valueOf(source || el, shownRole);
      if (inert) lines.push([depth, shownRole + (name ? ' ' + quoted(name) : '') + ' inert', -1, distanceOf(rect, at)]);
      else addElement(el, shownRole, depth, rect, at, name, value, source);
      if (tag === 'select' || el.list) { optionLines(el, depth + 1, at); return 0; }
      if (tag === 'textarea' || tag === 'input') return 0;
      if (tag === 'canvas') inCanvas(el, depth + 1, at, rect, inert);
      if (tag === 'canvas' || tag === 'video' || tag === 'audio') return 0;
      scrollLine(el, style, depth + 1, at, rect);
      walk(el, depth + 1, clipped, quiet || role === 'textbox' || value !== '' && name !== '' || saysAll(whole, el, role, source), style.cursor, inert, near, keepsSpace(style));
      flush(depth + 1);
      if (block) words.push('\n');
      return 0;
    }
    if (svgChild && tag !== 'text' && visible && boxed && !quiet && isShape(el) && inDrawing(el)) {
      flush(depth);
      lines.push([depth, shapeText(el, style, rect, at.x, at.y), -1, distanceOf(rect, at)]);
      return 0;
    }
    if (tag === 'img' && el.useMap && visible && boxed) areas(el, depth, at, inert);
    suspect(el, tag, display, rect);
    if (visible && boxed && !quiet && isBare(el)) {
      addNote(iconText(el));
      const color = isSwatch(display, style, rect) && colorName(style.backgroundColor);
      if (color) { addSwatch(color); return 0; }
    }

    if (visible && STRUCTURE.has(role) && !quiet && (boxed || contents)) {
      flush(depth);
      const row = role === 'row' || role === 'cell';
      const whole = row ? squeeze(el.getAttribute('aria-label') || '') : nameOf(el, role, false), name = row ? whole : clip(whole, 300);
      const level = role === 'heading' ? ' level=' + (el.getAttribute('aria-level') || tag.slice(1) || 2) : '';
      const value = role === 'progressbar' || role === 'meter' ? ' value=' + quoted(clip(valueOf(el, role), LONGEST_LABEL)) : '';
      lines.push([depth, role + (name ? ' ' + quoted(name) : '') + value + level + (el.getAttribute('aria-busy') === 'true' ? ' busy' : ''), -1, distanceOf(rect, at)]);
      const before = lines.length;
      scrollLine(el, style, depth + 1, at, rect);
      walkText(el, depth + 1, clipped, NAMED_BY_CONTENT.has(role) && saysAll(whole, el, role, null), true, style, inert, near);
      flush(depth + 1);
      fold(before, depth);
      if (block) words.push('\n');
      return 0;
    }
    if (block) flush(depth);
    if (tag === 'canvas') {
      // One that lets clicks through is an effect drawn over the page, unless it has a name.
      const name = squeeze(el.getAttribute('aria-label') || el.title);
      if (visible && boxed && (name || style.pointerEvents !== 'none')) lines.push([depth, 'canvas' + (name ? ' ' + quoted(clip(name, 100)) : ''), -1, distanceOf(rect, at)]);
      if (visible && boxed) inCanvas(el, depth + 1, at, rect, inert);
      return 0;
    }
    scrollLine(el, style, depth, at, rect);
    const mute = !visible && !el.childElementCount;
    const apart = !inline && !block && !contents && text !== '' && el.closest('label') !== null;  // as in the name
    if (apart) text += ' ';
    const speaker = tag === 'label' && el.control && (delegateOf(el.control) || el.control);
    const said = speaker && standsItself(speaker) && nameOf(speaker, roleOf(speaker), true) === squeeze(contentText(el, {elements: new Set([el.control]), length: 0}));
    if (tag === 'br') words.push('\n');
    if (!mute) walkText(el, depth, clipped, quiet || said, visible, style, inert, near);
    else if (text) text += ' ';
    if (block) { flush(depth); words.push('\n'); } else if (tag === 'br' || apart) text += ' ';
    return 0;
  }

  // Where only branches are walked: a block in which nothing is sought leaves a gap. Nothing is read behind the first gap
  // that may have the text, unless all fields are.
  function isLeftOut(el, style, depth) {
    if (!branch || branch.sought.has(el) || style.contentVisibility === 'hidden' || FRAMES.has(tagOf(el))) return false;
    if (!firstIn(el, '*') && !rootOf(el) && !/\S/.test(textOf(el))) return false;
    flush(depth);
    const gap = branch.holders.has(el) ? MORE : GAP;
    const last = lines[lines.length - 1];
    if (!last || last[1] !== gap || last[0] !== depth) lines.push([depth, gap, -1, 0]);
    ended ||= gap === MORE && !seek.fields;
    return true;
  }

  // Does its name say what is in it? One that the page gives it (aria-label) need not. The plain case costs no styles.
  function saysAll(name, el, role, source) {
    if (name === '') return false;
    const all = name.toLowerCase(), own = rootOf(el) ? '' : textOf(el);
    const says = (text) => all.includes(squeeze(text).toLowerCase());
    return own.length < 1000 && /\S/.test(own) && says(own) || says(contentText(el, {elements: new Set([source]), length: 0, branch: role === 'treeitem'}));
  }

  // Walks the children of an element that says its text itself, with what its style adds to it.
  function walkText(el, depth, at, quiet, visible, style, inert, near) {
    const adds = visible && !quiet && (generates || el.localName === 'q');
    if (adds) addGenerated(el, '::before');
    walk(el, depth, at, quiet || !visible && UNSEEN, style.cursor, inert, near, keepsSpace(style));
    if (adds) addGenerated(el, '::after');
  }
  function addGenerated(el, which) {
    const said = pseudoText(el, which);
    if (!TELLING.test(said)) return;
    addText(said);
    addWords(said);
  }

  // Is a label's control an element of its own? An output says its text, and what is not drawn is stood for by its label.
  function standsItself(control) {
    if (getComputedStyle(control).visibility !== 'visible') return false;
    if (control.localName.includes('-')) return sized(control) && (control.tabIndex >= 0 || INTERACTIVE_ROLES.has(roleOf(control)) || clicks(control));
    if (!control.matches('button, input:not([type=hidden]), select, textarea')) return false;
    return sized(control) || control.getClientRects().length > 0 && ['checkbox', 'radio', 'file'].includes(control.type);
  }

  function areas(image, depth, at, inert) {
    const map = image.getRootNode().querySelector(`map[name="${CSS.escape(image.useMap.slice(1))}"]`);
    for (const area of map ? map.querySelectorAll('area[href]') : []) {
      flush(depth);
      if (!inert) addElement(area, roleOf(area), depth, boxOf(area), at, clip(nameOf(area, 'link', true), 300), '', null);
    }
  }

  // The controls in a canvas are not drawn, but take keys.
  function inCanvas(canvas, depth, at, rect, inert) {
    for (const el of inert ? [] : canvas.querySelectorAll(OWN_CONTROLS + ', [tabindex]')) {
      if (isForeign(el)) continue;
      const role = roleOf(el);
      addElement(el, role, depth, rect, at, clip(nameOf(el, role, true), 300), valueOf(el, role), null, false);
    }
  }

  // A form, accessed without its own properties (see dom.js).
  function visitForm(form, depth, at, quiet, pointer, inert) {
    const style = getComputedStyle(form);
    if (style.display === 'none' || style.contentVisibility === 'hidden') return 0;
    const rect = rectOf(form);
    if (kept && rect.height && rect.top * at.sy + at.y > height + band && !kept.has(form)) { cut = true; return BELOW; }
    const block = !style.display.startsWith('inline') && style.display !== 'contents';
    if (block && isLeftOut(form, style, depth)) return 0;
    const shown = style.visibility === 'visible' && !quiet && attributeOf(form, 'role') === null && (rect.width || rect.height);
    if (block) words.push('\n');
    if (block || shown) flush(depth);
    const below = shown ? depth + 1 : depth;
    if (shown) {
      const referred = byIdRef(form, 'aria-labelledby').map(referredText).join(' ');
      const name = clip(squeeze(referred || attributeOf(form, 'aria-label') || attributeOf(form, 'title') || ''), 300);
      lines.push([depth, 'form' + (name ? ' ' + quoted(name) : ''), -1, distanceOf(rect, at)]);
    }
    const before = lines.length;
    walk(form, below, at, quiet || style.visibility !== 'visible' && UNSEEN, style.cursor, inert || attributeOf(form, 'inert') !== null, false, false);
    if (block || shown) flush(below);
    if (shown) fold(before, depth);
    if (block) words.push('\n');
    return 0;
  }

  // Links around blocks have empty boxes of their own; their overflowing content can be clicked.
  function spills(el, rect) {
    if (rect.width > 0 && rect.height > 0) return true;
    for (const part of el.getClientRects()) if (part.width > 0 && part.height > 0) return true;
    const first = el.firstElementChild;
    return !!first && (el.localName === 'a' || el.localName === 'button' || el.hasAttribute('role') || el.hasAttribute('tabindex')) &&
      first.getClientRects().length > 0 && first.getBoundingClientRect().height > 0;
  }

  function canBeActedOn(el, tag, role, style, svgChild, hand) {
    if (tag === 'input') return el.type !== 'hidden';
    if (INTERACTIVE_ROLES.has(role) && role !== 'gridcell') return !(tag === 'option' && el.closest('select'));
    if (tag === 'select' || tag === 'textarea' || tag === 'summary' || tag === 'area' || isBareFold(el)) return true;
    if ((tag === 'audio' || tag === 'video') && el.controls) return true;
    const tabindex = el.hasAttribute('tabindex');
    if (tabindex && el.tabIndex >= 0) return !el.shadowRoot?.delegatesFocus;
    if (isCell(el, role) && cells++ < MOST_CELLS) return true;
    if (tag === 'body' && DOC.designMode(el.ownerDocument) === 'on') return true;
    if (tag === 'body' || tag === 'html' || tag === 'label') return false;
    if (style.pointerEvents === 'none') {
      if (hand || clicks(el)) mouseless.push(el);
      return false;
    }
    if (isItem(el) && clicks(parentOf(el))) return true;
    // An item that listens for nothing of the pointer costs one question.
    const item = role === 'row' || role === 'listitem', stirred = item && stirs(el);
    if (item && !stirred) probed.set(el, false);
    if (clicks(el)) {
      if (el.firstElementChild && isItem(el.firstElementChild)) return false;
      if (svgChild || tag === 'svg' || tag === 'canvas' || !el.firstElementChild) return true;
      if (el.querySelector('a[href], button, input, select, textarea, [onclick], [role=button], [role=link], [role=tab], [tabindex]')) return false;
      return !delegates(el);
    }
    if (droppable && drops(el) || (stirred || hovers !== null && (item || role === 'generic')) && revealsMore(el, hovers, stirred)) return true;
    if (hand) return style.cursor !== 'pointer' || !el.querySelector('a[href], button, input, select, textarea');
    return el.draggable && tag !== 'img' && tag !== 'a';
  }

  // Is it a cell or header of a grid that can be focused, or that says which it is to what listens around it? A cell that
  // says nothing of itself is only text.
  let cells = 0;
  function isCell(el, role) {
    if (role !== 'gridcell' && role !== 'columnheader' && role !== 'rowheader') return false;
    const focusable = el.hasAttribute('tabindex');
    return (focusable || el.matches(CELL_SAYS)) && el.closest('[role=grid], [role=treegrid]') !== null && (focusable || isHeard(el));
  }
  function isHeard(el) {
    for (let node = el; node; node = parentAcross(node)) if (clicks(node)) return true;
    return clicks(documentOf(el));
  }

  // Lists listen on behalf of their items, which are clicked or dragged, unless these contain controls of their own.
  function isItem(el) {
    return el.localName === 'li' && /^[uo]l$/.test(el.parentElement?.localName) && !el.querySelector('a[href], button, input, select, textarea, [tabindex], ul, ol');
  }

  // Listeners further down handle the clicks, so this one only delegates; unless it has text outside of them, as the row
  // of a list with icons has.
  function delegates(el) {
    const all = el.getElementsByTagName('*');
    const limit = Math.min(all.length, 100);
    let inside = false;
    for (let i = 0; i < limit; i++) {
      const inner = all[i];
      const tag = tagOf(inner);
      if ((tag === 'svg' || tag === 'canvas') && !isIcon(inner)) return true;
      inside = inside || clicks(inner);
    }
    return limit > 30 || inside && !wordsOfItsOwn(el);
  }

  function wordsOfItsOwn(el) {
    for (const child of el.childNodes) {
      if (child.nodeType === 3 ? squeeze(child.data) !== '' : child.nodeType === 1 && !clicks(child) && wordsOfItsOwn(child)) return true;
    }
    return false;
  }

  function clipFor(el, style, rect, at, display) {
    const position = style.position;
    const around = position === 'fixed' ? null : position === 'absolute' ? at.absolute : at.clip;
    const anchored = position !== 'static' || style.transform !== 'none';
    const ox = style.overflowX, oy = style.overflowY;
    let inner = around, hard = at.hard;
    if ((ox !== 'visible' || oy !== 'visible') && !display.startsWith('inline') || style.clipPath !== 'none') {
      const own = [ox === 'visible' ? -1e9 : rect.left, oy === 'visible' ? -1e9 : rect.top, ox === 'visible' ? 1e9 : rect.right, oy === 'visible' ? 1e9 : rect.bottom];
      inner = around ? [Math.max(around[0], own[0]), Math.max(around[1], own[1]), Math.min(around[2], own[2]), Math.min(around[3], own[3])] : own;
      hard = !/auto|scroll/.test(ox + oy);
    }
    const absolute = anchored ? inner : position === 'fixed' ? null : at.absolute;
    if (inner === at.clip && absolute === at.absolute && hard === at.hard) return at;
    return {...at, clip: inner, absolute, hard};
  }

  function scrollLine(el, style, depth, at, rect) {
    const overflow = style.overflowY;
    if (overflow !== 'auto' && overflow !== 'scroll' || el === root || el.clientHeight < 20 || el.scrollHeight <= el.clientHeight + 1) return;
    const above = Math.round(el.scrollTop), below = Math.round(el.scrollHeight - el.clientHeight - el.scrollTop);
    flush(depth);
    lines.push([depth, `scrolls: ${above} px above, ${below} px below`, -1, distanceOf(rect, at)]);
  }

  function optionLines(el, depth, at) {
    const away = distanceOf(el.getBoundingClientRect(), at);
    const options = optionsOf(el);
    let group = null;
    for (const option of options.slice(0, OPTION_LINES)) {
      if (groupOf(option) !== group && (group = groupOf(option))) lines.push([depth, 'group ' + quoted(clip(squeeze(group.label), 100)), -1, away]);
      const chosen = option.selected && el.localName === 'select';
      lines.push([depth + (group ? 1 : 0), 'option ' + quoted(clip(textOfOption(option), 100)) + (chosen ? ' selected' : '') + (option.disabled || group?.disabled ? ' disabled' : ''), -1, away]);
    }
    if (options.length > OPTION_LINES) lines.push([depth, `... ${options.length - OPTION_LINES} more options`, -1, away]);
  }

  function enterFrame(el, depth, at, rect, inert) {
    let inner = null;
    try { inner = el.contentDocument; } catch { /* another origin */ }
    const own = insideOf(el);
    const [x, y, sx, sy] = [own.x * at.sx + at.x, own.y * at.sy + at.y, own.sx * at.sx, own.sy * at.sy];
    if (!inner) {
      opaque.push([lines.length, depth, holderNumber(el), [x, y, sx, sy]]);
      const address = clip(el.src || '', LONGEST_LABEL);
      lines.push([depth, (el.localName === 'embed' ? 'embed' : 'iframe') + (address ? ' ' + quoted(address) : ''), -1, distanceOf(rect, at)]);
      return;
    }
    const title = squeeze(el.title || el.getAttribute('aria-label') || inner.title || '');
    const awaited = inner.URL === 'about:blank' && /^https?:/.test(el.src) && !DOC.body(inner)?.firstChild;
    lines.push([depth, 'iframe' + (title ? ' ' + quoted(clip(title, 100)) : '') + (awaited ? ' not loaded' : ''), -1, distanceOf(rect, at)]);
    if (!DOC.documentElement(inner)) return;
    watch(inner);
    windows.push(DOC.defaultView(inner));
    const modal = topModal(inner);
    const {innerWidth: w, innerHeight: h} = DOC.defaultView(inner);
    const inside = {x, y, sx, sy, modal, frame: clip(inner.URL, limits.url), w, h, clip: [0, 0, w, h], absolute: null, hard: false};
    inside.absolute = inside.clip;
    words.push('\n');
    visitAll(inner, depth + 1, inside, inert || !!modal);
  }

  function goesOn() {
    const above = Math.max(0, Math.round(scrollY - band)), below = Math.max(0, Math.round(root.scrollHeight - scrollY - height - band));
    let more = DOC.links(document).length - elements.filter((e) => !e[8] && SEEN_CONTROLS.has(e[3])).length;
    for (const tag of CONTROLS) more += DOC.getElementsByTagName(document, tag).length;
    return `... the page goes on for ${above} px above and ${below} px below of what is here` + (more > 0 ? `, with about ${more} links and controls` : '');
  }

  // A host with a closed shadow root looks like an element that draws something without having content.
  function suspect(el, tag, display, rect) {
    if (rootOf(el) || asked.get(el) === rect.height || suspects.length > 100) return;
    const custom = tag.includes('-');
    if (!custom && (el.childElementCount || !rect.height || display === 'inline' || !HOSTS.has(tag) || el.firstChild && squeeze(el.textContent))) return;
    asked.set(el, rect.height);
    suspects.push(el);
  }

  // A container with a single line of text in it, or none, becomes one line.
  function fold(before, depth) {
    const own = lines[before - 1];
    const added = lines.length - before;
    const bare = /^[a-z]+$/.test(own[1]);
    if (added === 0 && bare) lines.splice(before - 1, 1);
    else if (added === 1 && bare && lines[before][2] === -1 && lines[before][0] === depth + 1 && !lines[before][1].startsWith('iframe')) {
      own[1] += ': ' + lines[before][1];
      lines.pop();
    }
  }

  let generates = false, hovers = null;  // of the documents walked so far; of this one
  function visitAll(doc, depth, at, inert) {
    const around = hovers, sheets = sheetFacts(doc);
    generates ||= sheets.generates;
    hovers = sheets.hovers;
    for (const part of DOC.documentElement(doc)?.children || []) {
      if (!SKIP.has(part.tagName)) { visitSafely(part, depth, at, false, 'auto', inert, false); flush(depth); }
    }
    hovers = around;
  }

  // Fields that the browser has refused since the last pass, and why.
  function refusals() {
    const out = [];
    for (const win of windows) {
      for (const field of win.refusedFields?.splice(0) || []) {
        const role = roleOf(field), message = field.validationMessage || internalsOf(field)?.validationMessage;
        if (out.length < 5 && message) out.push(`${role} ${quoted(clip(nameOf(field, role, true), 80))}: ${message}${field.title && field.validity?.patternMismatch && !message.includes(field.title) ? ' ' + field.title : ''}`);
      }
    }
    return out;
  }

  const droppable = DOC.querySelectorAll(document, '[draggable=true]').length > 0;
  const modal = topModal(document);
  visitAll(document, 0, {x: originX, y: originY, sx: originSX, sy: originSY, modal, frame: origin ? clip(DOC.URL(document), limits.url) : '', w: innerWidth, h: innerHeight, clip: null, absolute: null, hard: false}, !!modal);
  const marked = markedText(focused);
  if (marked) lines.push([0, 'marked text: ' + quoted(clip(marked, 300)), -1, 0]);
  if (cut) lines.push([0, goesOn(), -1, 0]);
  if (written > limits.page) lines.push([0, `... the page is longer than the ${limits.page} characters that are shown`, -1, 0]);
  let read = words.join('').replace(/[^\S\n]+/g, ' ').replace(/ ?\n[ \n]*/g, '\n').trim().replace(/\u0001/g, ' ').replace(/\u0002/g, '\t').trimEnd();
  if (spoken > limits.page) read = read.slice(0, limits.page) + `\n... cut: the page is longer than ${limits.page} characters`;
  return {
    url: clip(DOC.URL(document), limits.url), title: clip(DOC.title(document), limits.title), elements, lines, opaque, miss, readBack: readIn, faults, closing: window.closed, refused: refusals(), nextId, suspects: suspects.length, coming: arriving.some((el) => !arrived.has(el)), opening: mouseless.some(isOpening),
    text: read,
    scroll: [scrollX, scrollY, root ? root.scrollWidth : width, root ? root.scrollHeight : height, width, height],
  };
}

// Cursors that say that something can be clicked or taken hold of.
const HANDS = /^(?:pointer|grab|grabbing|move|all-scroll|(?:col|row|[ns]?[ew]?|n[ew]s[we]|ns|ew)-resize)$/;
const MOST_CELLS = 1000;  // of grids, that have ids
const CELL_SAYS = '[aria-selected], [aria-sort], [data-date], [data-day], [data-time], [data-value]';
const OWN_CONTROLS = 'a[href]:not([href^="#"]), button, input:not([type=hidden]), select, textarea, [role=button], [role=link], [role=menuitem]';
const PHRASING = new Set('abbr b bdi bdo cite code data dfn em font i kbd mark q s samp small span strong sub sup time u var wbr'.split(' '));
const CONTROLS = ['button', 'input', 'select', 'textarea'];
const SEEN_CONTROLS = new Set(['a', 'area', ...CONTROLS]);

function observe(what) {
  const seen = pass(what);
  if (what.origin) see();  // a frame's own: only the top document is looked at by `look`
  return JSON.stringify(seen);
}

const HOSTS = new Set('article aside blockquote div footer h1 h2 h3 h4 h5 h6 header main nav p section span'.split(' '));
