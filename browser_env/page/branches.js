// Narrows a pass to the branches of a page in which a text may stand, and to what is around them. What the pass leaves
// out is the line GAP, or MORE where the text may be in it: the search stops when enough elements may have the text.

const GAP = '\u0000';
const MORE = '\u0000more';
const SMALL = 50;  // elements of a neighbour that is kept with all that is in it
const SPLIT = 8;  // texts, hidden ones included, over which a word may be spread
const SUSPECTS = 100;
const MOST_WORDS = 4;  // of the text, that are tried until few elements have one
const LONG_PIECE = 2000;  // characters of a text that may be cut in its line, which then says how long it is

const SILENT = new Set('href src srcset style action for name d points transform role type onclick aria-labelledby aria-describedby aria-owns aria-controls'.split(' '));

const attributesOf = getter(Element.prototype, 'attributes');
const ends = {
  first: getter(Element.prototype, 'firstElementChild'), last: getter(Element.prototype, 'lastElementChild'),
  next: getter(Element.prototype, 'nextElementSibling'), previous: getter(Element.prototype, 'previousElementSibling'),
};
const allOf = method(Element.prototype, 'getElementsByTagName');
const walkerOf = method(Document.prototype, 'createTreeWalker');

// Words that the outline has of its own: a line may have them wherever it comes from.
const OWN_WORDS = [...ROLES, ...STRUCTURE, ...Object.values(TAG_ROLES), ...Object.values(INPUT_ROLES), ...SHAPES, ...Object.values(COLORS), ...HOSTS,
  'checked mixed selected pressed expanded collapsed disabled readonly file required invalid current busy focused clipped unclickable covered inert ' +
  'submit reset details value level placeholder description text iframe embed marked icon boxes outline scrolls above below characters cut more options ' +
  'the page is longer than that are shown from by to at px'].join(' ');

const plainly = (text) => text.replace(/[\u00ad\u200b]/g, '').toUpperCase().toLowerCase().replace(/\u03c2/g, '\u03c3');

// The words that a line with the text can have from the page alone, the longest first.
function tellingWords(text) {
  const words = plainly(text).match(/[\p{L}\p{N}\p{M}]+/gu) || [];
  return words.filter((word) => !OWN_WORDS.includes(word) && !(/^[\da-f]{1,6}$/.test(word) && /[a-f]/.test(word))).sort((one, other) => other.length - one.length);
}

// The elements that a pass has to visit; null for all. `near`: how many neighbours are kept on each side; `most`: lines
// that are wanted; `fields`: are all fields needed?
function branches({text, near, most, fields}) {
  let found = null;
  for (const word of near === null ? [] : tellingWords(text).slice(0, MOST_WORDS)) {
    found = branchesWith(word, near, most, fields);
    if (!found.stopped) break;
  }
  return found;
}

function branchesWith(word, near, most, fields) {
  const isNumber = /^\d+$/.test(word);
  const sought = new Set(), trees = [];
  let hits = 0, suspected = 0, stopped = null;
  const says = (one) => plainly(one).includes(word);
  const known = new Map();
  const holds = (el) => {
    if (!known.has(el)) known.set(el, sought.has(el) || says(textOf(el)));
    return known.get(el);
  };
  const keep = (node) => {
    for (let el = node; el && !sought.has(el);) {
      if (typeOf(el) === 1) sought.add(el);
      const slot = slotOf(el);
      if (slot) keep(slot);
      const tree = parentOf(el) ? null : treeOf(el);
      el = parentOf(el) || (tree && (typeOf(tree) === 9 ? holderOf(tree) : tree.host)) || null;
    }
  };
  const hit = (node) => {
    if (typeOf(node) === 1 && sought.has(node)) return;
    if (stopped) return;
    keep(node);
    if (++hits > 10 * most + 100) stopped = node;
  };

  let open = [];  // words that began in a text: what is left of each, where it began, and over how many texts it may go on
  function read(node) {
    const data = plainly(node.data);
    if (!/\S/.test(data) || SKIP.has(parentOf(node)?.tagName)) return;
    const longer = [];
    for (const [left, began, lives] of open) {
      if (data.startsWith(left)) { began.forEach(hit); hit(node); }
      else if (lives > 1) {
        longer.push([left, began, lives - 1]);
        if (left.startsWith(data)) longer.push([left.slice(data.length), [...began, node], lives - 1]);
      }
    }
    open = longer;
    if (data.includes(word) || data.length > LONG_PIECE) hit(node);
    if (!word.includes(data.at(-1))) return;
    for (let size = Math.min(word.length - 1, data.length); size > 0; size--) {
      if (data.endsWith(word.slice(0, size))) open.push([word.slice(size), [node], SPLIT]);
    }
  }

  // May the value of an attribute be in a line? An icon's or an empty element's class and id may.
  const isShown = (el, name) => name === 'class' || name === 'id' ? !ends.first(el) && isBare(el) : !SILENT.has(name);

  // What shows a number that its own text doesn't.
  function counts(el, tag) {
    if (el.scrollHeight > el.clientHeight + 1 && el.clientHeight >= 20 || el.namespaceURI === SVG) return true;
    if (/^(?:h[1-6]|progress|meter|select)$/.test(tag)) return true;
    return !ends.first(el) && isBare(el) && colorName(getComputedStyle(el).backgroundColor) !== '';
  }

  function look(tree) {
    const before = plain;
    plain = new Set();  // of this tree's styles
    lookInto(tree);
    plain = before;
  }

  function lookInto(tree) {
    trees.push(tree);
    const {generates} = sheetFacts(documentOf(tree) || tree);
    const walker = walkerOf(document, tree, 5);
    for (let node = walker.nextNode(); node && (!stopped || fields); node = walker.nextNode()) {
      if (typeOf(node) === 3) { read(node); continue; }
      const el = node, tag = tagOf(el), inner = rootOf(el);
      for (const {name, value} of attributesOf(el)) if (value.length >= word.length && isShown(el, name) && says(value)) { hit(el); break; }
      if (tag.includes('-') && Object.values(internalsOf(el) || {}).some(says)) hit(el);
      const field = tag === 'input' || tag === 'textarea' || tag === 'select';
      if (field && (says(valueOf(el, '')) || fields)) keep(el);
      else if (fields && matchesOf(el, '[role], [contenteditable], [aria-valuenow], [aria-valuetext], progress, meter')) keep(el);
      if (isNumber && counts(el, tag)) keep(el);
      if (generates && isVisible(el) && ['::before', '::after'].some((which) => TELLING.test(pseudoText(el, which)))) hit(el);
      if (inner) look(inner);
      else if (suspected < SUSPECTS && !asked.has(el) && (tag.includes('-') || HOSTS.has(tag) && !ends.first(el) && !/\S/.test(textOf(el)))) { suspected++; keep(el); }
      if (FRAMES.has(tag)) {
        let doc = null;
        try { doc = el.contentDocument; } catch { /* another origin */ }
        if (doc) look(doc); else keep(el);
      }
    }
  }
  look(document);
  keep(topModal(document));

  // What stands in another element's line: of those where the search has stopped, it is in the lines before that, too.
  const isBefore = (el) => !stopped || (placeOf(el, stopped) & (Node.DOCUMENT_POSITION_FOLLOWING | Node.DOCUMENT_POSITION_DISCONNECTED)) !== 0;
  for (const tree of trees) {
    const all = (selector) => Array.from(typeOf(tree) === 9 ? DOC.querySelectorAll(tree, selector) : tree.querySelectorAll(selector));
    for (const label of all('label')) {
      const control = label.control;
      if (control && isBefore(control) && holds(label)) keep(delegateOf(control) || control);
      if (control && sought.has(control)) keep(label);
    }
    for (const el of all('[aria-labelledby], [aria-describedby], [aria-owns]').filter(isBefore)) {
      if (['aria-labelledby', 'aria-describedby', 'aria-owns'].some((name) => byIdRef(el, name).some(holds))) keep(el);
    }
    for (const el of all('input[list]').filter(isBefore)) if (el.list && holds(el.list)) keep(el);
    for (const area of all('area[href]')) if (sought.has(area)) keep(imageOf(area));
  }

  function around(el, side) {
    if (!el || sought.has(el)) return;
    sought.add(el);
    const inside = allOf(el, '*');
    if (inside.length <= SMALL) for (const one of [el, ...inside]) { sought.add(one); edge(rootOf(one), side); }
    else { edge(el, side); edge(rootOf(el), side); }
  }
  function edge(node, side) {
    if (!node) return;
    let child = typeOf(node) === 1 ? (side === 'next' ? ends.first : ends.last)(node) : side === 'next' ? node.firstElementChild : node.lastElementChild;
    for (let i = 0; child && i < near; i++, child = ends[side](child)) around(child, side);
  }
  for (const el of [...sought]) {
    for (const side of ['previous', 'next']) {
      let other = ends[side](el);
      for (let i = 0; other && i < near; i++, other = ends[side](other)) around(other, side);
    }
  }
  return Object.assign(sought, {stopped});
}
