// Changes each page of a site when it is shown, as a new version of the site might, and records clicks and input
// separately. Call change(kind, seed) after an episode has begun, before its first page is used. Elements are named as
// before any change; `touched` lists the elements that received the user's input.
{
  let kind = '', draw = () => 0, pages = 0, extra = -1;
  const plain = show;
  show = (...given) => {
    const page = () => { plain(...given); name(); if (kind) alter(); };
    if (kind === 'extra' && pages === extra && bySeed % 2) between(page);
    else page();
    pages += 1;
  };

  let bySeed = 0;
  window.change = (wanted, seed) => {
    kind = wanted; bySeed = seed; pages = 0;
    let state = seed * 2654435761 + 1;
    draw = (below) => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.floor(state / 2 ** 32 * below); };
    extra = kind === 'extra' ? Math.floor(seed / 2) % 2 : -1;
    window.touched = [];
    home();
  };

  const all = (where, what = 'a, button, input, select') => [...where.querySelectorAll(what)];
  const label = (one) => (one.closest('label') || one).firstChild?.textContent?.trim() || one.textContent.trim();
  const called = new WeakMap();
  const name = () => { for (const one of all(document.body)) if (!called.has(one)) called.set(one, `${one.tagName.toLowerCase()} ${label(one)}`); };

  for (const type of ['click', 'input']) {
    addEventListener(type, (event) => {
      const one = event.target.closest?.('a, button, input, select');
      const typing = one && ['INPUT', 'SELECT'].includes(one.tagName) && one.type !== 'checkbox';
      const said = one && (called.get(one) || `${one.tagName.toLowerCase()} ${label(one)}`);
      if (one && typing === (type === 'input') && said !== window.touched.at(-1)) window.touched.push(said);
    }, true);
  }

  const shuffle = (list) => {
    for (let at = list.length - 1; at > 0; at -= 1) { const other = draw(at + 1); [list[at], list[other]] = [list[other], list[at]]; }
    return list;
  };
  const rename = (one, how) => { const text = (one.closest('label') || one).firstChild; text.textContent = how(text.textContent.trim()) + (one.closest('label') ? ' ' : ''); };
  const ours = () => new Set(Object.values(config.labels));
  const main = () => document.querySelector('main');
  const decoy = (one) => {
    const copy = (one.closest('p:has(> label)') || one).cloneNode(true);
    for (const each of copy.matches('a, button, input, select') ? [copy] : all(copy)) {
      called.set(each, `decoy ${called.get(one)}`);
      if (each.tagName === 'BUTTON') each.type = 'button';
      each.onclick = (event) => { if (each.tagName === 'A') event.preventDefault(); };
    }
    return copy;
  };

  function alter() { (kinds[kind] || (() => {}))(); }

  const kinds = {
    // The content is moved on the page, and its buttons to the other end of their containers.
    moved() {
      const body = document.body, here = main();
      if (draw(2)) body.prepend(here); else body.append(here);
      for (const button of all(here, 'button')) {
        if (draw(2)) button.parentElement.prepend(button); else button.parentElement.append(button);
      }
    },
    // Classes and IDs are renamed, with the styles that depend on them.
    renamed() {
      for (const one of all(document.body, '*')) { one.className = `c${draw(1e6)}`; one.id = `i${draw(1e9)}`; }
    },
    // More boxes wrap everything.
    wrapped() {
      for (const one of all(main(), 'a, button, label, ul, form')) {
        const box = document.createElement(one.closest('label, p, a') ? 'span' : ['div', 'section', 'article'][draw(3)]);
        one.replaceWith(box);
        box.append(one);
      }
    },
    // The site's own labels are reworded slightly.
    relabelled() {
      const ways = [(text) => `${text} now`, (text) => `Please: ${text}`, (text) => text.toUpperCase(), (text) => `${text} »`, (text) => `Your ${text}`];
      const fields = [(text) => `${text} *`, (text) => `${text}:`, (text) => `Your ${text.toLowerCase()}`, (text) => `${text} (required)`];
      for (const one of all(document.body)) {
        if (!ours().has(called.get(one).replace(/^\S+ /, ''))) continue;
        rename(one, one.closest('label') ? fields[draw(fields.length)] : ways[draw(ways.length)]);
      }
    },
    // The elements are reordered, except in the shop's login, whose first field is taken for the name.
    reordered() {
      for (const list of all(document.body, 'ul, form:not(:has([type=password])), nav')) list.append(...shuffle([...list.childNodes]));
      document.body.append(...shuffle([...document.body.children].filter((one) => one.tagName !== 'SCRIPT')));
    },
    // Decoys with the same role and name are added beside the original, in the news or in a form, or replace it.
    decoys() {
      for (const one of all(main(), 'button, input, select, li a')) {
        const copy = decoy(one), aside = document.querySelector('aside');
        const there = one.closest('p:has(> label)') || one;
        if (bySeed % 5 === 0) there.before(copy);
        else if (bySeed % 5 === 1) there.after(copy);
        else if (bySeed % 5 === 2) aside.append(copy);
        else if (bySeed % 5 === 3) main().append(h('form', {}, h('h2', {}, 'Newsletter'), copy));
        else { aside.append(copy); if (one.tagName === 'BUTTON') one.remove(); }
      }
    },
    // Elements that the flow needs are removed: the last button of each page, or one of its fields.
    removed() {
      const fields = all(main(), 'p:has(> label)');
      if (bySeed % 2 && fields.length) fields[draw(fields.length)].remove();
      else all(main(), 'button').at(-1)?.remove();
    },
    // A dialog covers the page, or an extra page comes between (`show`).
    extra() {
      if (bySeed % 2 || pages !== extra) return;
      const text = ['No thanks', 'Close', 'Maybe later'][draw(3)];
      const box = h('div', {role: 'dialog', ariaLabel: 'Newsletter', style: 'position: fixed; inset: 0; background: white'},
        h('p', {}, 'Do you want our news by e-mail?'), h('button', {type: 'button'}, 'Subscribe'), h('button', {type: 'button', onclick: () => box.remove()}, text));
      for (const one of all(box)) called.set(one, one.textContent === text ? 'away' : 'decoy subscribe');
      document.body.append(box);
    },
  };

  function between(page) {
    plain('Before you go on', h('p', {}, 'We have changed our terms of use.'), h('button', {onclick: page}, 'Go on'));
    for (const one of all(main())) called.set(one, 'between');
  }
}
