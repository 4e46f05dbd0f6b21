// Finds where a document shows a secret: boxes in CSS pixels of its own viewport. Runs in an isolated world, so the
// page's scripts can't see the patterns. `patterns`: of secrets, found across elements. `inline`: tags of what stands
// within a line; null if only secrets are looked for. Otherwise fields with something in them count, too, and the answer
// has `values`, those of the fields that text is typed into and the numbers that links call, and `lines`, each a list of
// pieces [text, tag, whether it is in a link to a telephone number, its cell as [table, row, column]]; `boxesOf` in the
// same world then takes what is private in them, as [line, piece, start, end], and returns the boxes. Uses dom.js.

(patterns, inline) => {
  const EDITABLE = 'input:not([type=hidden], [type=button], [type=submit], [type=reset], [type=checkbox], [type=radio]), textarea, select';
  const CALLS = ['tel', 'sms', 'smsto', 'callto', 'facetime'].map((scheme) => `a[href^="${scheme}:" i]`).join();
  const INLINE = new Set(inline);
  const TABLES = new Set(['table', 'grid', 'treegrid']), ROWS = new Set(['row', 'tr']);
  const CELLS = new Set(['cell', 'gridcell', 'columnheader', 'rowheader', 'td', 'th']);
  const fields = [];
  const texts = [];
  const lineOf = [];
  const boxes = [];
  const cells = [];
  const values = [];
  let ended = 0, tables = 0, cell = [0, 0, 0];

  const shownBy = (el) => {
    if (tagOf(el) === 'select' && el.selectedOptions) return Array.from(el.selectedOptions, (o) => o.label).join(' ');
    if ((tagOf(el) === 'input' || tagOf(el) === 'textarea') && typeof el.value === 'string') return el.value || el.placeholder || '';
    return null;
  };

  function walk(node) {
    for (const child of childrenOf(node)) {
      if (typeOf(child) === 3) { if (child.data) { texts.push(child); lineOf.push(ended); cells.push(cell); } continue; }
      if (typeOf(child) !== 1 || tagOf(child) === 'script' || tagOf(child) === 'style') continue;
      const apart = !INLINE.has(tagOf(child)), value = shownBy(child);
      if (apart) ended++;
      if (value !== null) { if (value) fields.push([child, value]); continue; }
      if (matchesOf(child, CALLS)) values.push(attributeOf(child, 'href').replace(/^\w+:|[;?].*$/g, ''));
      const around = cell, kind = attributeOf(child, 'role') || tagOf(child), [table, row, column] = cell;
      if (TABLES.has(kind)) cell = [++tables, 0, 0];
      else if (ROWS.has(kind)) cell = [table, row + 1, 0];
      else if (CELLS.has(kind)) cell = [table, row, column + 1];
      if (shadowOf(child)) walk(shadowOf(child));
      walk(child);
      if (TABLES.has(kind)) cell = around;
      if (apart) ended++;
    }
  }

  // Calls `found(first, start, last, end)` for every match in the joined texts of `parts`, which may span several.
  function search(sought, parts, textOf, found) {
    if (!sought.length) return;
    const pattern = new RegExp(sought.join('|'), 'gi');
    const joined = parts.map(textOf).join('');
    const starts = [];
    let length = 0;
    for (const part of parts) { starts.push(length); length += textOf(part).length; }
    const indexAt = (position) => {
      let low = 0, high = starts.length - 1;
      while (low < high) { const middle = (low + high + 1) >> 1; if (starts[middle] <= position) low = middle; else high = middle - 1; }
      return low;
    };
    for (let match; (match = pattern.exec(joined));) {
      if (!match[0]) { pattern.lastIndex++; continue; }
      const first = indexAt(match.index), last = indexAt(match.index + match[0].length - 1);
      found(first, match.index - starts[first], last, match.index + match[0].length - starts[last]);
    }
  }

  const add = (rect) => { if (rect.width && rect.height) boxes.push([rect.x, rect.y, rect.width, rect.height]); };

  if (DOC.documentElement(document)) walk(DOC.documentElement(document));
  const mark = (parts) => (first, start, last, end) => {
    const range = DOC.createRange(document);
    for (let i = first; i <= last; i++) {
      range.setStart(parts[i], i === first ? start : 0);
      range.setEnd(parts[i], i === last ? end : parts[i].data.length);
      for (const rect of range.getClientRects()) add(rect);
    }
  };
  search(patterns, texts, (text) => text.data, mark(texts));
  const lines = [];
  if (inline) {
    const keepsLines = (el) => el && getComputedStyle(el).whiteSpace.startsWith('pre');
    texts.forEach((text, i) => {
      const el = parentOf(text);  // null right below a shadow root
      const shown = /[\n\r\t]/.test(text.data) && !keepsLines(el) ? text.data.replace(/[\n\r\t]/g, ' ') : text.data;
      if (!i || lineOf[i] !== lineOf[i - 1]) lines.push([]);
      lines[lines.length - 1].push({part: text, piece: [shown, el ? tagOf(el) : '', !!el && !!closestTo(el, CALLS), cells[i]]});
      if (el?.isContentEditable) add(rectOf(el));
    });
    for (const [el, value] of fields) {
      if (matchesOf(el, EDITABLE) && el.value) add(rectOf(el));
      else lines.push([{part: el, piece: [value, '', false, [0, 0, 0]]}]);
    }
    globalThis.boxesOf = (found) => {
      boxes.length = 0;
      for (const [line, number, start, end] of found) {
        const {part} = lines[line][number];
        if (typeOf(part) === 1) add(rectOf(part));
        else mark([part])(0, start, 0, end);
      }
      return boxes;
    };
  }
  for (const field of fields) search(patterns, [field], (one) => one[1], () => add(field[0].getBoundingClientRect()));
  search(patterns, fields, (field) => field[1], (first, start, last) => {
    for (let i = first; i <= last; i++) add(fields[i][0].getBoundingClientRect());
  });
  for (const [el] of fields) if (matchesOf(el, EDITABLE) && tagOf(el) !== 'select' && el.value) values.push(el.value);
  return {boxes, lines: lines.map((line) => line.map((one) => one.piece)), values};
}
