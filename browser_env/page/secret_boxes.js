// Finds where a document shows a secret: boxes in CSS pixels of its own viewport. Runs in an isolated world, so the
// page's scripts can't see the patterns. `patterns`: of secrets, found across elements. `kinds`: of what is private by
// its kind, such as an e-mail address; found within a line of text; null if no such thing is looked for, and no field as
// such either. Uses dom.js.

(patterns, kinds) => {
  const INLINE = new Set(['a', 'abbr', 'b', 'bdi', 'code', 'em', 'font', 'i', 'label', 'mark', 's', 'small', 'span', 'strong', 'sub', 'sup', 'u', 'wbr']);
  const EDITABLE = 'input:not([type=hidden], [type=button], [type=submit], [type=reset], [type=checkbox], [type=radio]), textarea, select';
  const fields = [];
  const texts = [];
  const boxes = [];

  const shownBy = (el) => {
    if (tagOf(el) === 'select' && el.selectedOptions) return Array.from(el.selectedOptions, (o) => o.label).join(' ');
    if ((tagOf(el) === 'input' || tagOf(el) === 'textarea') && typeof el.value === 'string') return el.value || el.placeholder || '';
    return null;
  };

  function walk(node) {
    for (const child of childrenOf(node)) {
      if (typeOf(child) === 3) { if (child.data) texts.push(child); continue; }
      if (typeOf(child) !== 1 || tagOf(child) === 'script' || tagOf(child) === 'style') continue;
      const value = shownBy(child);
      if (value !== null) { if (value) fields.push([child, value]); continue; }
      if (shadowOf(child)) walk(shadowOf(child));
      walk(child);
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
  if (kinds) {
    let line = [], block = null;
    const blockOf = (text) => { let el = parentOf(text); while (el && INLINE.has(tagOf(el))) el = parentOf(el); return el; };
    const finish = () => { search(kinds, line, (text) => text.data, mark(line)); line = []; };
    for (const text of texts) {
      const own = blockOf(text);
      if (own !== block) finish();
      block = own;
      line.push(text);
      if (parentOf(text)?.isContentEditable) add(rectOf(parentOf(text)));
    }
    finish();
    for (const [el, value] of fields) {
      if (el.matches(EDITABLE) && el.value) add(el.getBoundingClientRect());
      else search(kinds, [el], () => value, () => add(el.getBoundingClientRect()));
    }
  }
  for (const field of fields) search(patterns, [field], (one) => one[1], () => add(field[0].getBoundingClientRect()));
  search(patterns, fields, (field) => field[1], (first, start, last) => {
    for (let i = first; i <= last; i++) add(fields[i][0].getBoundingClientRect());
  });
  return boxes;
}
