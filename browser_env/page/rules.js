// What the page's style sheets add to its elements: text, and what is shown only under the pointer.

const TELLING = /[\p{L}\p{N}\p{Sc}*\u201c\u201d]/u;
const facts = new WeakMap();

// Of a document's style sheets, asked again when there are more rules: do they generate text (`generates`; those of another
// origin may)? And `hovers`: what rules such as `tr:hover .actions {display: block}` show only under the pointer, null if
// there are none: the elements that are pointed at, and for each rule these and what it shows in them.
function sheetFacts(doc) {
  const lists = [];
  let count = 0, generates = false;
  for (const sheet of [...DOC.styleSheets(doc), ...DOC.adoptedStyleSheets(doc)]) {
    count++;
    try { lists.push(sheet.cssRules); count += sheet.cssRules.length; } catch { generates = true; }
  }
  const known = facts.get(doc);
  if (known?.count === count) return known;
  const pairs = [];
  for (const rules of lists) if (readRules(rules, '', pairs)) generates = true;
  const all = pairs.filter((pair) => !isOther(pair[0]) && isSelector(pair));
  const made = {count, generates, hovers: all.length ? {all, owners: all.map(([owner]) => owner).join()} : null};
  facts.set(doc, made);
  return made;
}

// Adds to `pairs` what rules show under the pointer. Do they generate text?
function readRules(rules, around, pairs) {
  let generates = false;
  for (const rule of rules) {
    let selector = rule.selectorText || '';
    if (/::?(before|after)/.test(selector) && /["(]/.test(rule.style?.content)) generates = true;
    selector = selector ? selector.includes('&') ? selector.replaceAll('&', `:is(${around})`) : selector : around;
    if (selector.includes(':hover') && shows(rule.style)) pairs.push(...selector.split(/,(?![^()]*\))/).flatMap(revealedBy));
    try {
      const inner = rule.cssRules || rule.styleSheet?.cssRules;
      if (inner?.length && readRules(inner, rule.cssRules ? selector : '', pairs)) generates = true;
    } catch { generates = true; }  // of another origin
  }
  return generates;
}
function revealedBy(selector) {
  const [, shown, group] = /^(.+):is\(:where\((.+)\):hover \*\)$/.exec(selector) || [];
  if (group) return [[group, shown]];
  const [, before, after, inside] = /^(.*):hover([^\s>+~]*)\s*([\s>].*)$/.exec(selector.trim()) || [];
  return before + after && inside ? [[before + after, ':scope ' + inside]] : [];
}
const shows = (style) => style && (style.display && style.display !== 'none' || style.visibility === 'visible');
// Is what is pointed at of another kind than rows, items and elements without a role, by its tag?
const isOther = (owner) => {
  const role = TAG_ROLES[/(?:^|[\s>+~])([a-z]\w*)[^\s>+~]*$/.exec(owner)?.[1]];
  return role !== undefined && role !== 'row' && role !== 'listitem';
};
const nowhere = document.createDocumentFragment();
function isSelector(pair) {
  try { return pair.every((one) => nowhere.querySelector(one) === null); } catch { return false; }
}

// Do more controls appear in an element under the pointer? What has a visible control is pointed at by that. `hears`: it
// listens for the pointer itself.
function revealsMore(el, hovers, hears) {
  if (!hears && !el.matches(hovers.owners)) return false;
  const isSeen = (inner) => isVisible(inner, {visibilityProperty: true});
  const controls = Array.from(el.querySelectorAll(OWN_CONTROLS));
  if (controls.some(isSeen)) return false;
  const isHidden = (inner) => !isSeen(inner) && (inner.matches(OWN_CONTROLS) || inner.querySelector(OWN_CONTROLS) !== null);
  return hears || controls.length > 0 && hovers.all.some(([owner, inside]) => el.matches(owner) && Array.from(el.querySelectorAll(inside)).some(isHidden));
}
