// Is some part of an element free that is covered where it is usually clicked? A grid of points is tested, but for those in
// the boxes that are known to cover the element.

const GRID = 12;
const MOST_TESTS = 3100;  // of points in one pass
const MOST_INNER = 100;

function gridOf(el) {
  const {left, top, width, height} = boxOf(el);
  const steps = Array.from({length: GRID}, (_, i) => (i + 0.5) / GRID);
  return steps.flatMap((down) => steps.map((across) => [left + width * across, top + height * down]));
}

const stackAt = (tree, x, y) => typeOf(tree) === 9 ? DOC.elementsFromPoint(tree, x, y) : tree.elementsFromPoint(x, y);

// Is `cover` drawn over `el` at a point where both are? It is known in the innermost tree that holds them or their hosts.
function liesOver(cover, el, x, y) {
  for (let under = el; under; under = treeOf(under).host) {
    const stack = stackAt(treeOf(under), x, y), place = stack.indexOf(under);
    if (place < 0) return false;
    for (let over = cover; over; over = treeOf(over).host) {
      if (treeOf(over) === treeOf(under)) return stack.includes(over) && stack.indexOf(over) < place;
    }
  }
  return false;
}

// The innermost elements of an element and of its labels, which may be drawn higher than the element itself; null if they
// can't be known, or are too many to be tested.
function partsOf(el) {
  const owners = [el, ...labelsOf(el)];
  if (owners.some(rootOf)) return null;
  const parts = owners.flatMap((owner) => [owner, ...allIn(owner, '*')]);
  return parts.length > MOST_INNER ? null : parts.filter((part) => part !== el && !firstIn(part, '*'));
}

function middleOfBoth(one, other) {
  const left = Math.max(one.left, other.left), right = Math.min(one.right, other.right);
  const top = Math.max(one.top, other.top), bottom = Math.min(one.bottom, other.bottom);
  return right > left && bottom > top ? [[(left + right) / 2, (top + bottom) / 2]] : [];
}

// The box of a positioned element that takes the mouse everywhere in it but at its round corners, since it does so at the
// ends of its edges; null if there is none. A clipped shape may be hollow.
function solidBox(el) {
  const style = getComputedStyle(el);
  if (style.position === 'static' || style.display === 'inline' || style.pointerEvents === 'none' || style.visibility !== 'visible') return null;
  for (let node = el; node; node = parentAcross(node)) if (getComputedStyle(node).clipPath !== 'none') return null;
  const {innerWidth, innerHeight} = DOC.defaultView(documentOf(el)), rect = rectOf(el);
  const left = Math.max(rect.left, 0) + 1, right = Math.min(rect.right, innerWidth) - 1;
  const top = Math.max(rect.top, 0) + 1, bottom = Math.min(rect.bottom, innerHeight) - 1;
  const round = Math.max(...['TopLeft', 'TopRight', 'BottomLeft', 'BottomRight'].map((corner) => parseFloat(style[`border${corner}Radius`])));
  const tips = [[0, round], [round, 0]].flatMap(([x, y]) => [[left + x, top + y], [right - x, top + y], [left + x, bottom - y], [right - x, bottom - y]]);
  const isSolid = left + round < right - round && top + round < bottom - round && tips.every(([x, y]) => stackAt(treeOf(el), x, y).includes(el));
  return isSolid ? {cover: el, left, right, top, bottom, round, area: (right - left) * (bottom - top)} : null;
}

function takesMouseAt({left, right, top, bottom, round}, [x, y]) {
  return x > left && x < right && y > top && y < bottom && (x > left + round && x < right - round || y > top + round && y < bottom - round);
}

// For one pass: `isFree(el, over, x, y)`, is some part of `el` free, where `over` is hit at a point instead of it?
function covers() {
  const solid = new Map();
  let left = MOST_TESTS;

  // The largest solid box of `hit` and of what is around it, but not around `el`; null if there is none.
  function coverOf(hit, around) {
    let largest = null;
    for (let cover = hit; cover && !around.has(cover); cover = parentAcross(cover)) {
      if (!solid.has(cover)) solid.set(cover, solidBox(cover));
      const box = solid.get(cover);
      if (box && (!largest || box.area > largest.area)) largest = box;
    }
    return largest;
  }

  return (el, over, x, y) => {
    const parts = partsOf(el), around = new Set(), known = new Set(), boxes = [];
    for (let node = el; node; node = parentAcross(node)) around.add(node);
    const learn = (hit, ...at) => {
      const box = hit && parts && documentOf(hit) === documentOf(el) && coverOf(hit, around);
      if (box && !known.has(box) && known.add(box) && liesOver(box.cover, el, ...at)) boxes.push(box);
    };
    const isHit = (at) => {
      if (left-- <= 0) return false;
      const hit = hits(el, ...at);
      if (hit !== true) learn(hit, ...at);
      return hit === true;
    };
    const isFreeAt = (at) => !boxes.some((box) => takesMouseAt(box, at)) && isHit(at);
    learn(over, x, y);
    return points(el).some(isFreeAt) || (parts || []).flatMap((part) => middleOfBoth(rectOf(part), boxOf(el))).some(isHit) || gridOf(el).some(isFreeAt);
  };
}
