// The DOM around an element: its ancestors, its neighbours and what is in it, as plain data. What was typed into fields
// is not in it. Uses dom.js.

(start = DOC.activeElement(document) || DOC.body(document)) => {
  const LONGEST = 200;  // characters of a text or an attribute
  const UP = 6, DOWN = 3, NEIGHBOURS = 8;

  const attributesOf = getter(Element.prototype, 'attributes'), nextTo = getter(Element.prototype, 'children');
  const clip = (text) => (text.length > LONGEST ? text.slice(0, LONGEST) + '…' : text);

  function own(el) {
    const out = {tag: tagOf(el)};
    const attributes = {};
    for (const {name, value} of attributesOf(el)) if (name !== 'value') attributes[name] = clip(value);
    if (Object.keys(attributes).length) out.attributes = attributes;
    const box = rectOf(el);
    out.box = [box.x, box.y, box.width, box.height].map(Math.round);
    return out;
  }

  const filled = (el) => tagOf(el) === 'textarea' || el.isContentEditable;

  function below(el, depth) {
    const out = own(el);
    if (filled(el)) return out;
    const children = [];
    for (const child of childrenOf(shadowOf(el) || el)) {
      if (children.length > 40) { children.push('…'); break; }
      if (typeOf(child) === 3 && child.data.trim()) children.push(clip(child.data.replace(/[ \t\r\n]+/g, ' ')));
      if (typeOf(child) !== 1 || tagOf(child) === 'script' || tagOf(child) === 'style') continue;
      if (depth > 0) children.push(below(child, depth - 1));
      else { children.push('…'); break; }
    }
    if (children.length) out.children = children;
    return out;
  }

  const el = typeOf(start) === 1 ? start : parentOf(start) || DOC.documentElement(document);
  if (!el) return null;
  const ancestors = [];
  for (let up = aboveOf(el); up && ancestors.length < UP; up = aboveOf(up) || (typeOf(up) === 11 ? up.host : null)) if (typeOf(up) === 1) ancestors.push(own(up));
  const all = parentOf(el) ? Array.from(nextTo(parentOf(el))) : [el];
  const at = all.indexOf(el);
  const near = all.slice(Math.max(0, at - NEIGHBOURS / 2), at + NEIGHBOURS / 2 + 1).filter((one) => one !== el);
  return {element: below(el, DOWN), ancestors, neighbours: near.map((one) => below(one, 1))};
}
