// The surroundings of an action's target (`this`, or the focused element if that is a document).

function () {
  let el = this.nodeType === 9 ? this.activeElement : this;
  while (el?.shadowRoot?.activeElement) el = el.shadowRoot.activeElement;
  while (el?.localName === 'iframe') {
    try { el = el.contentDocument.activeElement; } catch { break; }
  }
  if (!el || el.nodeType !== 1) return {};
  const words = (node, limit) => (node?.innerText || node?.textContent || '').replace(/\s+/g, ' ').trim().slice(0, limit);
  const form = el.form || el.closest('form, [role=form], [role=search]');
  const dialog = el.closest('dialog, [role=dialog], [role=alertdialog], [aria-modal=true]');
  const inputs = form ? Array.from(form.querySelectorAll('input, select, textarea')) : [];
  const submit = form && form.querySelector('button:not([type]), button[type=submit], input[type=submit], input[type=image]');
  const hints = inputs.map((input) => (input.autocomplete && input.autocomplete !== 'off' && input.autocomplete !== 'on')
    ? (input.type === 'password' && !input.autocomplete.includes('cc-') ? 'password' : input.autocomplete.split(' ').pop())
    : input.type);
  const kind = el.localName === 'button' || el.localName === 'input' ? el.type : '';
  const link = el.closest('a[href]');
  const href = link ? link.getAttribute('href') : '';
  const only = inputs.filter((input) => !['hidden', 'submit', 'button', 'image', 'reset', 'checkbox', 'radio'].includes(input.type));
  const searching = /search|such|recherche|busca|cerca|zoek|szuka/i;
  return {
    type: el.type && el.localName !== 'button' ? el.type : '',
    autocomplete: el.autocomplete || '',
    href: href && !href.startsWith('#') && !/^javascript:/i.test(href) ? href : '',
    submits: Boolean(form) && (kind === 'submit' || kind === 'image' || (kind === '' && form.localName !== 'form')),
    opens: ['menu', 'true', 'listbox', 'dialog'].includes(el.getAttribute('aria-haspopup')) || el.hasAttribute('aria-expanded'),
    dialog: dialog ? words(dialog, 600) : '',
    search: Boolean(el.type === 'search' || el.closest('[role=search], search') || (form && only.length === 1 &&
      (only[0].type === 'search' || searching.test([only[0].name, only[0].placeholder, only[0].getAttribute('aria-label'), form.action, form.id].join(' '))))),
    fields: Array.from(new Set(hints)).slice(0, 40),
    submit: submit ? (submit.getAttribute('aria-label') || submit.value || words(submit, 80)) : '',
    form: form ? (form.getAttribute('aria-label') || words(form.querySelector('h1, h2, h3, legend'), 80)) : '',
  };
}
