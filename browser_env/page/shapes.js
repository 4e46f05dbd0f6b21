// Shapes and colours as text: kind, colour, size and position of a drawing's shapes; the colour of bare boxes.

const SHAPES = new Set('circle ellipse line path polygon polyline rect text'.split(' '));
const UNDRAWN = 'defs, clipPath, mask, marker, pattern, symbol';
const SMALLEST_DRAWING = 40;  // CSS pixels; what is smaller is an icon
const LARGEST_SWATCH = 64;
const FIELDS = new Set('input textarea select progress meter'.split(' '));
const MOST_SHAPES = 200;  // in one drawing
const COLORS = {
  '0,0,0': 'black', '255,255,255': 'white', '128,128,128': 'gray', '192,192,192': 'silver', '255,0,0': 'red', '128,0,0': 'maroon',
  '255,255,0': 'yellow', '128,128,0': 'olive', '0,255,0': 'lime', '0,128,0': 'green', '0,255,255': 'aqua', '0,128,128': 'teal',
  '0,0,255': 'blue', '0,0,128': 'navy', '255,0,255': 'magenta', '128,0,128': 'purple', '255,165,0': 'orange', '165,42,42': 'brown',
  '255,192,203': 'pink',
};

// The name of a computed colour, or #rrggbb; empty if it is transparent or not a plain colour.
function colorName(computed) {
  const parts = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(computed);
  if (!parts || parts[4] === '0') return '';
  const rgb = parts.slice(1, 4).map((part) => Math.round(Number(part)));
  return COLORS[rgb.join()] || '#' + rgb.map((part) => part.toString(16).padStart(2, '0')).join('');
}

// Such as `red circle 16x16 at 30,82` (its centre) or `black rect outline ...`; a line by its ends. `x`, `y`: the document's offset.
function shapeText(el, style, rect, x, y) {
  const round = (value) => Math.round(value * 10) / 10;
  const fill = el.localName === 'line' ? '' : colorName(style.fill);
  const stroke = colorName(style.stroke);
  const color = fill || stroke;
  const what = (color ? color + ' ' : '') + el.localName + (stroke && !fill && el.localName !== 'line' ? ' outline' : '');
  const screen = el.localName === 'line' && el.getScreenCTM();
  if (screen) {
    const [from, to] = [1, 2].map((end) => new DOMPoint(el['x' + end].baseVal.value, el['y' + end].baseVal.value).matrixTransform(screen));
    return `${what} from ${round(from.x + x)},${round(from.y + y)} to ${round(to.x + x)},${round(to.y + y)}`;
  }
  return `${what} ${round(rect.width)}x${round(rect.height)} at ${round(rect.left + x + rect.width / 2)},${round(rect.top + y + rect.height / 2)}`;
}

// Has an element no content but its background, like the squares of a colour picker?
const isBare = (el) => !el.firstElementChild && !FIELDS.has(el.localName) && !squeeze(textOf(el));

// Is a bare element a colour sample in the text?
const isSwatch = (display, style, {width, height}) =>
  (display === 'inline-block' || style.float !== 'none') && Math.min(width, height) >= 4 && Math.max(width, height) <= LARGEST_SWATCH;

const isIcon = (el) => {
  const {width, height} = el.getBoundingClientRect();
  return width < SMALLEST_DRAWING || height < SMALLEST_DRAWING;
};

const ICON_CLASS = /^(?:fa|bi|glyphicon|(?:[a-z]+-)?icon)-([a-z]+(?:-[a-z]+)*)$/;

// An icon in the text, an empty element with an icon class: ` icon "trash" `; empty for anything else.
function iconText(el) {
  const kinds = Array.from(el.classList, (name) => ICON_CLASS.exec(name)?.[1]).filter(Boolean);
  return kinds.length ? ` icon "${kinds.join(' ')}" ` : '';
}

const isShape = (el) => SHAPES.has(el.localName) && el.namespaceURI === SVG && !el.closest(UNDRAWN);

// Does the drawing matter, because it or something in it can be clicked or dragged? `clicks`: does an element have
// listeners?
function isDrawing(svg, clicks) {
  if (isIcon(svg)) return false;
  const all = svg.getElementsByTagName('*');
  if (all.length > MOST_SHAPES) return false;
  return clicks(svg) || Array.from(all).some((el) => SHAPES.has(el.localName) && (clicks(el) || getComputedStyle(el).cursor === 'pointer'));
}
