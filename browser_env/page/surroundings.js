// The surroundings of an action's target (`this`, or the focused element if that is a document). Uses dom.js.

function () {
  let el = typeOf(this) === 9 ? DOC.activeElement(this) : this;
  while (el && shadowOf(el)?.activeElement) el = shadowOf(el).activeElement;
  while (el && tagOf(el) === 'iframe') {
    try { el = DOC.activeElement(el.contentDocument); } catch { break; }
  }
  if (!el) return {};
  const SUBMITS = 'button:not([type]), button[type=submit], input[type=submit], input[type=image]';
  const elementsOf = getter(HTMLFormElement.prototype, 'elements');
  const isForm = (node) => tagOf(node) === 'form';
  const [shownIn, addressOf] = [getter(HTMLElement.prototype, 'innerText'), getter(HTMLFormElement.prototype, 'action')];
  const words = (node, limit) => (node && ((isForm(node) ? shownIn(node) : node.innerText) || textOf(node)) || '').replace(/\s+/g, ' ').trim().slice(0, limit);
  const own = (name) => !isForm(el) && el[name] || '';
  const form = own('form') || closestTo(el, 'form, [role=form], [role=search]');
  const dialog = closestTo(el, 'dialog, [role=dialog], [role=alertdialog], [aria-modal=true]');
  // A form's own fields and buttons may be elsewhere on the page, tied to it by their attribute `form`.
  const fields = !form ? [] : isForm(form) ? Array.from(elementsOf(form)) : Array.from(allIn(form, 'button, input, select, textarea'));
  const inputs = fields.filter((one) => ['input', 'select', 'textarea'].includes(tagOf(one)));
  const submit = form && (firstIn(form, SUBMITS) || fields.find((one) => matchesOf(one, SUBMITS)));
  const hints = inputs.map((input) => (input.autocomplete && input.autocomplete !== 'off' && input.autocomplete !== 'on')
    ? (input.type === 'password' && !input.autocomplete.includes('cc-') ? 'password' : input.autocomplete.split(' ').pop())
    : input.type);
  // A page's script may pay without a form.
  const scope = dialog || DOC.documentElement(documentOf(el));
  const filled = (form ? inputs : Array.from(allIn(scope, 'input'))).filter((one) => tagOf(one) === 'input' && one.type !== 'hidden' && one.value);
  const namesOf = (one) => [one.autocomplete.split(' ').pop(), one.name, one.id, attributeOf(one, 'aria-label'), attributeOf(one, 'placeholder'),
    ...Array.from(one.labels || [], (label) => textOf(label))];
  const described = (attributeOf(el, 'aria-describedby') || '').split(/\s+/).map((id) => id && firstIn(DOC.documentElement(documentOf(el)), '#' + CSS.escape(id)));
  const kind = tagOf(el) === 'button' || tagOf(el) === 'input' ? el.type : '';
  const link = closestTo(el, 'a[href]');
  const href = link ? link.getAttribute('href') : '';
  const only = inputs.filter((input) => !['hidden', 'submit', 'button', 'image', 'reset', 'checkbox', 'radio'].includes(input.type));
  const searching = /search|such|recherche|busca|cerca|zoek|szuka/i;
  return {
    type: tagOf(el) !== 'button' ? own('type') : '',
    autocomplete: own('autocomplete'),
    href: href && !href.startsWith('#') && !/^javascript:/i.test(href) ? href : '',
    submits: Boolean(form) && (kind === 'submit' || kind === 'image' || (kind === '' && !isForm(form))),
    opens: ['menu', 'true', 'listbox', 'dialog'].includes(attributeOf(el, 'aria-haspopup')) || attributeOf(el, 'aria-expanded') !== null,
    dialog: dialog ? words(dialog, 600) : '',
    search: Boolean(own('type') === 'search' || closestTo(el, '[role=search], search') || (form && only.length === 1 &&
      (only[0].type === 'search' || searching.test([only[0].name, only[0].placeholder, only[0].getAttribute('aria-label'), isForm(form) ? addressOf(form) : '', attributeOf(form, 'id')].join(' '))))),
    fields: Array.from(new Set(hints)).filter(Boolean).slice(0, 40),
    submit: submit ? (submit.getAttribute('aria-label') || submit.value || words(submit, 80)) : '',
    title: (attributeOf(el, 'title') || attributeOf(el, 'aria-description') || described.map((one) => one ? textOf(one) : '').join(' ')).trim().slice(0, 200),
    navigates: Boolean(closestTo(el, 'nav, [role=navigation]')),
    filled: Array.from(new Set(filled.slice(0, 40).flatMap(namesOf))).filter(Boolean).map((one) => one.slice(0, 80)),
    form: form ? (attributeOf(form, 'aria-label') || words(firstIn(form, 'h1, h2, h3, legend'), 80)) : '',
  };
}
