// Finds where a document shows a secret: boxes in CSS pixels of its own viewport. Runs in an isolated world, so the
// page's scripts can't see the patterns.

(patterns) => {
  const pattern = new RegExp(patterns.join('|'), 'gi');
  const fields = [];
  const texts = [];
  const boxes = [];

  const shownBy = (el) => {
    if (el.localName === 'select') return Array.from(el.selectedOptions, (o) => o.label).join(' ');
    if (el.localName === 'input' || el.localName === 'textarea') return el.value || el.placeholder || '';
    return null;
  };

  function walk(node) {
    for (const child of node.childNodes) {
      if (child.nodeType === 3) { if (child.data) texts.push(child); continue; }
      if (child.nodeType !== 1 || child.localName === 'script' || child.localName === 'style') continue;
      const value = shownBy(child);
      if (value !== null) { if (value) fields.push([child, value]); continue; }
      if (child.shadowRoot) walk(child.shadowRoot);
      walk(child);
    }
  }

  // Calls `found(first, start, last, end)` for every match in the joined texts of `parts`, which may span several.
  function search(parts, textOf, found) {
    const joined = parts.map(textOf).join('');
    const starts = [];
    let length = 0;
    for (const part of parts) { starts.push(length); length += textOf(part).length; }
    const indexAt = (position) => {
      let low = 0, high = starts.length - 1;
      while (low < high) { const middle = (low + high + 1) >> 1; if (starts[middle] <= position) low = middle; else high = middle - 1; }
      return low;
    };
    pattern.lastIndex = 0;
    for (let match; (match = pattern.exec(joined));) {
      if (!match[0]) { pattern.lastIndex++; continue; }
      const first = indexAt(match.index), last = indexAt(match.index + match[0].length - 1);
      found(first, match.index - starts[first], last, match.index + match[0].length - starts[last]);
    }
  }

  const add = (rect) => { if (rect.width && rect.height) boxes.push([rect.x, rect.y, rect.width, rect.height]); };

  if (document.documentElement) walk(document.documentElement);
  search(texts, (text) => text.data, (first, start, last, end) => {
    const range = document.createRange();
    for (let i = first; i <= last; i++) {
      range.setStart(texts[i], i === first ? start : 0);
      range.setEnd(texts[i], i === last ? end : texts[i].data.length);
      for (const rect of range.getClientRects()) add(rect);
    }
  });
  for (const field of fields) search([field], (one) => one[1], () => add(field[0].getBoundingClientRect()));
  search(fields, (field) => field[1], (first, start, last) => {
    for (let i = first; i <= last; i++) add(fields[i][0].getBoundingClientRect());
  });
  return boxes;
}
