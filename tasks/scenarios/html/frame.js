// What the sites have in common: the frame around a page's content, which no flow depends on, and how elements are made.
let config = {}, state = {};

// An element: h('button', {onclick: send}, 'Send').
function h(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function link(text, follow) {
  return h('a', {href: '#', onclick: (event) => { event.preventDefault(); follow(); }}, text);
}

function field(label, properties = {}) {
  return h('p', {}, h('label', {}, `${label} `, h('input', {autocomplete: 'off', ...properties})));
}

function choice(label, options, name = '') {
  return h('p', {}, h('label', {}, `${label} `, h('select', {name}, ...options.map((option) => h('option', {}, option)))));
}

// Radio buttons under a legend; the form's data has the chosen option by `name`.
function radios(legend, name, options) {
  const radio = (option) => h('label', {}, `${option} `, h('input', {type: 'radio', name, value: option}));
  return h('fieldset', {}, h('legend', {}, legend), ...options.map((option) => h('p', {}, radio(option))));
}

// A table with a heading for each column; a cell is a text or an element.
function table(headings, rows) {
  const row = (tag, cells) => h('tr', {}, ...cells.map((cell) => h(tag, {}, cell)));
  return h('table', {}, h('thead', {}, row('th', headings)), h('tbody', {}, ...rows.map((cells) => row('td', cells))));
}

// Shows a page: a heading and what belongs to it, within the frame that the episode has drawn.
function show(heading, ...content) {
  const {links, news, notice, newsFirst} = config.frame;
  const aside = h('aside', {}, h('h3', {}, 'News'), ...news.map((text) => h('p', {}, text)));
  const main = h('main', {}, h('h1', {}, heading), ...content);
  document.body.replaceChildren(
    h('nav', {}, ...links.flatMap((text) => [link(text, () => {}), ' ']), ...menu()),
    ...(notice ? [h('p', {}, notice)] : []),
    ...(newsFirst ? [aside, main] : [main, aside]),
    h('footer', {}, config.frame.footer), ...over(),
  );
  keep();
}

// Links of a site's own that are on each of its pages.
let menu = () => [];

// What lies over each of its pages.
let over = () => [];

function start(drawn) {
  config = drawn;
  state = {done: null};
  keep();
  home();
}

// A site outlives a reload and its tab: opened again, it begins at its home, with all that was done.
const keep = () => { localStorage.kept = JSON.stringify({config, state}); };
addEventListener('pagehide', keep);
addEventListener('DOMContentLoaded', () => {
  if (!localStorage.kept) return;
  ({config, state} = JSON.parse(localStorage.kept));
  home();
});
