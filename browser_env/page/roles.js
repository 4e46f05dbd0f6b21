// Roles after HTML-AAM: explicit where valid, else what the tag implies.

const ROLES = new Set(('alert alertdialog application article banner blockquote button caption cell checkbox code ' +
  'columnheader combobox comment complementary contentinfo definition deletion dialog directory document emphasis feed ' +
  'figure form generic grid gridcell group heading image img insertion link list listbox listitem log main mark marquee ' +
  'math menu menubar menuitem menuitemcheckbox menuitemradio meter navigation note option paragraph progressbar radio ' +
  'radiogroup region row rowgroup rowheader scrollbar search searchbox separator slider spinbutton status strong ' +
  'subscript suggestion superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree ' +
  'treegrid treeitem graphics-document graphics-object graphics-symbol').split(' '));
const INTERACTIVE_ROLES = new Set(('button checkbox combobox gridcell link listbox menuitem menuitemcheckbox ' +
  'menuitemradio option radio scrollbar searchbox slider spinbutton switch tab textbox treeitem').split(' '));
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
  p: 'paragraph', progress: 'progressbar', search: 'search', summary: 'button', table: 'table', textarea: 'textbox',
  tr: 'row', ul: 'list', canvas: 'canvas', svg: 'graphic', video: 'video', audio: 'audio'};
const GLOBAL_ARIA = ['aria-label', 'aria-labelledby', 'aria-describedby', 'aria-live', 'aria-controls', 'aria-owns'];

function roleOf(el) {
  const tag = tagOf(el);
  const explicit = attributeOf(el, 'role') ?? (tag.includes('-') ? internalsOf(el)?.role : null);
  if (explicit) {
    for (const word of explicit.toLowerCase().split(/\s+/)) {
      // What can be focused or carries global ARIA attributes is not presentational, whatever it says.
      if (word === 'none' || word === 'presentation') {
        if (el.tabIndex >= 0 || ['tabindex', ...GLOBAL_ARIA].some((name) => attributeOf(el, name) !== null)) break;
        return 'generic';
      }
      if (ROLES.has(word)) return word === 'image' ? 'img' : word === 'directory' ? 'list' : word;
    }
  }
  return impliedRole(el, tag);
}

function impliedRole(el, tag) {
  switch (tag) {
    case 'a': return el.hasAttribute('href') || el.hasAttribute('xlink:href') ? 'link' : 'generic';
    case 'area': return el.hasAttribute('href') ? 'link' : 'generic';
    case 'input':
      if (el.type === 'hidden') return 'generic';
      if (el.type === 'checkbox' && el.hasAttribute('switch')) return 'switch';
      return el.list && TEXT_TYPES.has(el.type) && el.type !== 'number' && el.type !== 'password' ? 'combobox' : INPUT_ROLES[el.type] || 'textbox';
    case 'select': return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    case 'img': return el.getAttribute('alt') === '' ? 'generic' : 'img';
    case 'section': return named(el) ? 'region' : 'generic';
    case 'form': return 'form';
    case 'header': case 'footer':
      return el.closest('article, aside, main, nav, section') ? 'generic' : tag === 'header' ? 'banner' : 'contentinfo';
    case 'td': return gridAround(el) ? 'gridcell' : 'cell';
    case 'th': return el.scope === 'row' || el.scope === 'rowgroup' ? 'rowheader' : 'columnheader';
  }
  if (el.isContentEditable && !el.parentElement?.isContentEditable) return 'textbox';
  return TAG_ROLES[tag] || 'generic';
}

const named = (el) => el.hasAttribute('aria-label') || el.hasAttribute('aria-labelledby') || el.hasAttribute('title');
function gridAround(el) {
  const role = el.closest('table')?.getAttribute('role');
  return role === 'grid' || role === 'treegrid';
}
