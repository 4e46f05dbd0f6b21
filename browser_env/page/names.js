// Roles, accessible names, values and states.

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
