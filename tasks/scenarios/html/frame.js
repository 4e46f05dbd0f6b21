// Shared by the sites: the frame around a page's content, which no flow depends on, and functions that create elements.
let config = {}, state = {};

// Creates an element: h('button', {onclick: send}, 'Send').
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

// Creates radio buttons with a legend; the form's data contains the chosen option under `name`.
function radios(legend, name, options) {
  const radio = (option) => h('label', {}, `${option} `, h('input', {type: 'radio', name, value: option}));
  return h('fieldset', {}, h('legend', {}, legend), ...options.map((option) => h('p', {}, radio(option))));
}

// Creates a table with column headings; a cell is a text or an element.
function table(headings, rows) {
  const row = (tag, cells) => h('tr', {}, ...cells.map((cell) => h(tag, {}, cell)));
  return h('table', {}, h('thead', {}, row('th', headings)), h('tbody', {}, ...rows.map((cells) => row('td', cells))));
}

// Shows a page, a heading with content, within the frame drawn for the episode.
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

// The site's own links, shown on all of its pages.
let menu = () => [];

// The overlay shown on all pages of the site.
let over = () => [];

function start(drawn) {
  config = drawn;
  state = {done: null};
  keep();
  home();
}

// A site's state survives a reload and the closing of its tab: it then starts at its home page with the same state.
const keep = () => { localStorage.kept = JSON.stringify({config, state}); };
addEventListener('pagehide', keep);
addEventListener('DOMContentLoaded', () => {
  if (!localStorage.kept) return;
  ({config, state} = JSON.parse(localStorage.kept));
  home();
});
