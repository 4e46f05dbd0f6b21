// Accessible names (accname 1.2, HTML-AAM), values and states.

const NAMED_BY_CONTENT = new Set(('button cell checkbox columnheader gridcell heading link menuitem ' +
  'menuitemcheckbox menuitemradio option radio row rowheader switch tab tooltip treeitem').split(' '));
const WIDGETS_IN_NAMES = new Set(['textbox', 'searchbox', 'combobox', 'listbox', 'slider', 'spinbutton', 'progressbar', 'meter', 'scrollbar', 'menu']);
const CSS_CONTENT = /"((?:[^"\\]|\\.)*)"|attr\(([^\s(),]+)[^()]*\)|(\/)|(open|close)-quote/g;
const QUOTES = {open: '\u201c', close: '\u201d'};

// The plain text of a pseudo-element; private-use characters of icon fonts mean nothing. Within one pass, if an element
// has none, others of the same tag and class are assumed to have none.
let plain = new Set();
function pseudoText(el, which) {
  const key = which + el.localName + ' ' + el.className;
  if (plain.has(key)) return '';
  const style = getComputedStyle(el, which);
  const content = style.content.replace(/url\("[^"]*"\)/g, '');
  if (content === 'none' || content === 'normal') { plain.add(key); return ''; }
  if (style.display === 'none' || style.visibility !== 'visible') return '';
  let out = '';
  for (const [, text, attribute, slash, quote] of content.matchAll(CSS_CONTENT)) {
    if (slash) out = '';  // content: "x" / "what is read out instead"
    else if (quote) out += QUOTES[quote];
    else out += attribute ? attributeOf(el, attribute) ?? '' : text.replace(/\\(.)/g, '$1').replace(/[\ue000-\uf8ff]/g, '');
  }
  return style.display.startsWith('inline') ? out : ` ${out} `;
}

const TRANSFORMS = {uppercase: (s) => s.toUpperCase(), lowercase: (s) => s.toLowerCase(), capitalize: (s) => s.replace(/(^|[\s\-/(])(\p{L})/gu, (_, a, b) => a + b.toUpperCase())};

// The text that a screen reader announces for an element's content: visible text, alternative texts, names of embedded
// elements. `seen` breaks cycles and limits the work on huge contents; with `seen.whole` what is hidden counts, too.
function contentText(el, seen, style) {
  seen = seen || {elements: new Set(), length: 0};
  if (seen.elements.has(el) || seen.length > 2000) return '';
  seen.elements.add(el);
  style = style || getComputedStyle(el);
  const transform = TRANSFORMS[style.textTransform];
  const hidden = (style.visibility !== 'visible' || tagOf(el) === 'details' && el.open === false) && !seen.whole;
  let out = pseudoText(el, '::before');
  const slotted = isSlot(el) ? el.assignedNodes() : [];
  const children = slotted.length ? slotted : (rootOf(el) || el).childNodes;
  for (const child of children) {
    if (child.nodeType === 3 && hidden) continue;
    if (child.nodeType === 3) { const data = child.data.length > 4000 ? child.data.slice(0, 4000) : child.data; out += transform ? transform(data) : data; seen.length += child.data.length; continue; }
    if (child.nodeType === 1) out += embeddedText(child, seen);
    if (seen.length > 2000) break;
  }
  for (const owned of byIdRef(el, 'aria-owns')) out += ' ' + embeddedText(owned, seen) + ' ';
  return out + pseudoText(el, '::after');
}

// What an element contributes to the name of its ancestor.
function embeddedText(child, seen) {
  if (tagOf(child) === 'form') return ' ' + textOf(child) + ' ';
  if (seen.elements.has(child)) return child.checkVisibility() ? ' ' : '';
  if (SKIP.has(child.tagName) || child.getAttribute('aria-hidden') === 'true' && !seen.whole) return '';
  const tag = child.localName;
  if (tag === 'br' || tag === 'wbr') return ' ';
  if (tag === 'rt' || tag === 'rp' || child.inert === true || isFolded(child)) return '';
  if (isForeign(child)) return ' ' + contentText(child, seen) + ' ';
  const style = getComputedStyle(child);
  if (!seen.whole && (style.display === 'none' || (style.visibility !== 'visible' && !child.childElementCount))) return '';
  const role = roleOf(child);
  if (WIDGETS_IN_NAMES.has(role)) return ' ' + (role === 'menu' ? '' : role === 'listbox' ? chosenIn(child) ?? '' : valueOf(child, role) || child.placeholder || '') + ' ';
  const label = semantic(child, 'aria-label', tag);
  if (label && label.trim()) return ' ' + label + ' ';
  if (role === 'generic' && tag === 'img') return '';
  if (tag === 'img' || tag === 'area') { const alt = child.getAttribute('alt') ?? child.title; return alt ? ' ' + alt + ' ' : ''; }
  if (child.namespaceURI === SVG && tag === 'svg') {
    const title = child.querySelector(':scope > title');
    return ' ' + (title ? title.textContent : child.querySelector('text') ? contentText(child, seen, style) : '') + ' ';
  }
  if (role === 'group' && seen.branch) return '';
  if (tag === 'iframe' || tag === 'canvas' || tag === 'video' || tag === 'audio' || tag === 'object') return ' ' + (child.title || '') + ' ';
  if (tag === 'input') return ' ' + (role === 'button' ? nameOf(child, role, true) : '') + ' ';
  const inner = contentText(child, seen, style);
  return style.display === 'inline' ? inner : ' ' + inner + ' ';
}

// Does a closed <details> hide it?
const isFolded = (el) => { const around = parentOf(el); return around?.localName === 'details' && around.open === false && el.localName !== 'summary'; };
// Is it a closed <details> without a summary? The browser shows a line of its own for it.
const isBareFold = (el) => el.localName === 'details' && el.open === false && !el.querySelector(':scope > summary');

// The name of an element that another element's name refers to; it may be hidden.
function referredText(el) {
  if (isForeign(el)) return el.textContent;
  if (tagOf(el) === 'form') return attributeOf(el, 'aria-label') || textOf(el);
  const label = isSlot(el) ? '' : semantic(el, 'aria-label');
  if (label && label.trim()) return label;
  const role = roleOf(el);
  if (role === 'listbox') return chosenIn(el) ?? '';
  if (WIDGETS_IN_NAMES.has(role)) return valueOf(el, role);
  if (el.localName === 'img') return el.alt;
  if (el.localName === 'input') return nameOf(el, role, true);
  return referredContent(el) || el.title;
}

// The text of an element that another refers to: of a hidden one, with all that is hidden in it.
function referredContent(el) {
  const style = getComputedStyle(el);
  const whole = style.display === 'none' || style.visibility !== 'visible' || !(el.getClientRects().length || isSlot(el) || style.display === 'contents');
  return contentText(el, {elements: new Set(), length: 0, whole}, style);
}

// The options that are chosen in a list, or in the list that a combobox owns, as text; null if none is.
function chosenIn(el) {
  if (el.localName === 'select') return Array.from(el.selectedOptions, (option) => squeeze(option.label)).join(' ');
  const chosen = [el, ...byIdRef(el, 'aria-owns')].flatMap((list) => Array.from(list.querySelectorAll('[role=option][aria-selected=true]')));
  const said = chosen.map((option) => option.getAttribute('aria-label') || contentText(option, {elements: new Set(), length: 0, whole: true}));
  return chosen.length ? said.map(squeeze).join(', ') : null;
}

// The text of a combobox of ARIA's without that of its list.
function textBesideList(el) {
  let out = '';
  for (let child = firstOf(el); child; child = nextOf(child)) {
    if (typeOf(child) === 3) out += child.data;
    else if (typeOf(child) === 1 && tagOf(child) !== 'form' && !SKIP.has(child.tagName) && !/^(?:listbox|tree|grid|dialog|menu)$/.test(child.getAttribute('role')) && child.checkVisibility()) {
      out += ' ' + (textField(child) ? child.value : textBesideList(child));
    }
  }
  return squeeze(out);
}

// The labels of a control, or of a custom element that takes part in forms, in the page's order. `labels` walks the whole
// tree for each control, so those of all controls are looked up at once, and known while this script runs.
const labelMaps = new Map();
function labelsOf(el) {
  const tree = treeOf(el);
  if (!labelMaps.size) Promise.resolve().then(() => labelMaps.clear());
  if (!labelMaps.has(tree)) labelMaps.set(tree, labelMapOf(tree));
  return labelMaps.get(tree).get(el) || [];
}
function labelMapOf(tree) {
  const out = new Map();
  for (const label of typeOf(tree) === 9 ? DOC.querySelectorAll(tree, 'label') : tree.querySelectorAll?.('label') || []) {
    const control = label.control;
    if (control && !out.get(control)?.push(label)) out.set(control, [label]);
  }
  return out;
}

function labelText(el) {
  const seen = {elements: new Set([el]), length: 0};
  return squeeze(labelsOf(el).filter((label) => label.checkVisibility()).map((label) => {
    const own = label.getAttribute('aria-label');
    return own && own.trim() ? own : contentText(label, seen);
  }).join(' '));
}

// The field that acts for a custom element that takes part in forms or passes its focus on: the first in its tree.
const DELEGATES = 'input:not([type=hidden]), select, textarea, button, a[href], [tabindex], [contenteditable]';
function delegateOf(host) {
  const root = tagOf(host).includes('-') && rootOf(host);
  if (!root || !root.delegatesFocus && !host.matches(':enabled, :disabled')) return null;
  for (const el of Array.from(root.querySelectorAll('*')).slice(0, 100)) {
    const found = el.matches(DELEGATES) && el.checkVisibility() ? el : delegateOf(el);
    if (found) return found;
  }
  return null;
}

// The name that is given to the custom element for which a field acts.
function hostName(el) {
  for (let tree = treeOf(el); tree !== document && tree.host && delegateOf(tree.host) === el; tree = treeOf(tree.host)) {
    const {host} = tree;
    const name = nameByReference(host) || squeeze(semantic(host, 'aria-label') || '') || labelText(host);
    if (name) return name;
  }
  return '';
}

const naming = new Set();  // elements whose names are being computed: names may refer to each other in circles
let referring = false;  // references of what is referred to don't count (accname 1.2, 2B)

// An element's accessible name. `interactive`: its content may name it, whatever its role.
function nameOf(el, role, interactive) {
  if (naming.has(el)) return '';
  naming.add(el);
  try {
    return ownName(el, role, interactive);
  } catch (error) {
    noteFault(el, error);
    return '';
  } finally {
    naming.delete(el);
  }
}

function nameByReference(el) {
  if (referring) return '';
  const referred = byIdRef(el, 'aria-labelledby');
  if (!referred.length) return '';
  referring = true;
  try { return squeeze(referred.map(referredText).join(' ')); } finally { referring = false; }
}

function ownName(el, role, interactive) {
  const referred = nameByReference(el);
  if (referred) return referred;
  const tag = el.localName;
  const label = semantic(el, 'aria-label', tag);
  if (label && label.trim()) return squeeze(label);
  if (tag === 'input' && (el.type === 'submit' || el.type === 'reset' || el.type === 'button')) {
    if (el.value) return squeeze(el.value);
    const text = labelText(el);
    return text || (el.type === 'submit' ? 'Submit' : el.type === 'reset' ? 'Reset' : squeeze(el.title));
  }
  const labelled = labelText(el);
  if (labelled) return labelled;
  if (tag === 'input' && el.type === 'image') return squeeze(el.alt || el.title || 'Submit');
  if (tag === 'img' || tag === 'area') { const alt = el.getAttribute('alt'); if (alt) return squeeze(alt); }
  if (tag === 'fieldset') { const legend = el.querySelector(':scope > legend'); if (legend) return squeeze(contentText(legend)); }
  if (tag === 'table') { const caption = el.querySelector(':scope > caption'); if (caption) return squeeze(contentText(caption)); }
  if (tag === 'figure') { const caption = el.querySelector(':scope > figcaption'); if (caption) return squeeze(contentText(caption)); }
  if (tag === 'optgroup' || tag === 'option') return squeeze(el.label || '');
  if (el.namespaceURI === SVG) {
    const title = el.querySelector(':scope > title');
    if (title) return squeeze(title.textContent);
    if (tag === 'text' || tag === 'tspan' || tag === 'g') return squeeze(el.textContent);
  }
  if (NAMED_BY_CONTENT.has(role) || tag === 'summary' || (interactive && (role === 'generic' || role === 'listitem'))) {
    const text = squeeze(contentText(el, {elements: new Set(), length: 0, branch: role === 'treeitem'})) ||
      squeeze(el.querySelector('[title]')?.getAttribute('title') || '');  // of an icon
    if (text) return text;
  }
  const told = hostName(el) || squeeze(el.title || el.placeholder || el.getAttribute('aria-placeholder') || '');
  if (isBareFold(el)) return 'Details';
  return told || (interactive && role === 'generic' ? markupWords(el) : '');
}

// An icon made of an empty element has no text: the words of its id and classes describe it. Generated ones (with digits
// or capitals) say nothing.
function markupWords(el) {
  if (el.firstElementChild || el.localName.includes('-')) return '';
  const words = `${el.getAttribute('id') || ''} ${el.getAttribute('class') || ''}`.split(/\s+/);
  return words.filter((word) => /^[a-z]+([-_]+[a-z]+)*$/.test(word)).slice(0, 4).join(' ');
}

// A field's text as it is shown: bullets in a password's.
const masked = (el, text) => el.type === 'password' || text && getComputedStyle(el).webkitTextSecurity !== 'none' ? '\u2022'.repeat(text.length) : text;

function valueOf(el, role) {
  const tag = el.localName;
  if (tag === 'input') {
    if (el.type === 'checkbox' || el.type === 'radio' || el.type === 'submit' || el.type === 'button' ||
        el.type === 'reset' || el.type === 'image') return '';
    if (el.type === 'file') return Array.from(el.files, (f) => f.name).join(', ');
    return masked(el, el.value);
  }
  if (tag === 'textarea') return masked(el, el.value);
  if (tag === 'select') return Array.from(el.selectedOptions, (o) => squeeze(o.label)).join(', ');
  if (tag === 'progress' || tag === 'meter') return String(el.value);
  if (el.isContentEditable && (role === 'textbox' || role === 'searchbox')) {
    const text = withoutFillers(el.innerText);
    return keepsSpace(getComputedStyle(el)) ? text.replace(/\n$/, '') : squeeze(text);
  }
  const said = semantic(el, 'aria-valuetext', tag) || semantic(el, 'aria-valuenow', tag);
  if (said) return said;
  if (role === 'combobox') return chosenIn(el) ?? textBesideList(el);
  if (role === 'textbox' || role === 'searchbox') return squeeze(el.innerText ?? el.textContent);
  return '';
}

function statesOf(el, role, extra, focused) {
  const out = [];
  const inner = internalsOf(el);
  const aria = (name) => inner ? semantic(el, 'aria-' + name) : el.getAttribute('aria-' + name);
  const native = el.localName === 'input' && (el.type === 'checkbox' || el.type === 'radio');  // what it shows counts, not ARIA
  if (native ? el.checked : aria('checked') === 'true') out.push('checked');
  if (native ? el.indeterminate : aria('checked') === 'mixed') out.push('mixed');
  if (aria('selected') === 'true' || (el.localName === 'option' && el.selected) || el.classList.contains('selected')) out.push('selected');
  if (aria('pressed') === 'true') out.push('pressed');
  if (aria('pressed') === 'mixed') out.push('mixed');
  const open = aria('expanded');
  if (open === 'true' || (el.localName === 'summary' && el.parentElement?.open)) out.push('expanded');
  else if (open === 'false' || isBareFold(el) || (el.localName === 'summary' && el.parentElement?.open === false)) out.push('collapsed');
  if (disabled(el) || inner && aria('disabled') === 'true') out.push('disabled');
  if (el.readOnly === true && (el.localName === 'textarea' || TEXT_TYPES.has(el.type) || VALUE_TYPES.has(el.type)) ||
      aria('readonly') === 'true') out.push('readonly');
  if (el.localName === 'input' && el.type === 'file') out.push('file');
  if (el.required || aria('required') === 'true') out.push('required');
  const invalid = aria('invalid');
  if (invalid && invalid !== 'false' || el.matches(':user-invalid') || VALUE_TYPES.has(el.type) && el.value && !el.validity.valid) out.push('invalid');
  const current = aria('current');
  if (current && current !== 'false') out.push('current');
  if (aria('busy') === 'true') out.push('busy');
  if (el === focused) out.push('focused');
  out.push(...extra);
  return out;
}

const LONGEST_NOTE = 100;  // characters of a placeholder or a description

// What a person sees in or reads beside a field or a button that its name does not say: the format that it wants, what it
// is for. Links' titles mostly repeat where they lead.
function notesOf(el, role, name, value) {
  const out = [];
  const placeholder = squeeze(el.placeholder || el.getAttribute('aria-placeholder') || '');
  if (placeholder && placeholder !== name && !value) out.push('placeholder=' + quoted(clip(placeholder, LONGEST_NOTE)));
  const told = byIdRef(el, 'aria-describedby').map(referredContent).join(' ');
  const description = squeeze(told || semantic(el, 'aria-description') || (role === 'link' ? '' : el.title) || '');
  if (description && description !== name && description !== placeholder) out.push('description=' + quoted(clip(description, LONGEST_NOTE)));
  return out;
}
