// What the page writes, as the outline shows it: names and values in quotes, hidden characters as escapes, and a text that
// would read as a line of ours as `text "..."`. The outline is written by these functions alone; `observe/outline.py`
// reads it.

// Characters that turn text around, draw nothing, or control: all of them, or where they aren't in their usual places
// (joiners and selectors behind a letter or an emoji, soft hyphens between letters).
const HIDDEN = new RegExp('[\\x00-\\x1f\\x7f\\x85\\x9b\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f' +
  '\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]' +
  '|(?<![\\u00a1-\\u00ac\\u00ae-\\u034e\\u0350-\\u1fff\\u2030-\\u205e\\u2070-\\ufdff\\ufe0e-\\u{dffff}])[\\u034f\\u200c\\u200d]' +
  '|(?<![#*0-9\\u00a1-\\u00ac\\u00ae-\\u034e\\u0350-\\u1fff\\u2030-\\u205e\\u2070-\\ufdff\\ufe10-\\u{dffff}])[\\ufe00-\\ufe0f]' +
  '|(?<![A-Za-z\\u00c0-\\u024f])\\u00ad|\\u00ad(?![A-Za-z\\u00c0-\\u024f])', 'gu');
const escaped = (char) => Array.from({length: char.length}, (_, i) => '\\u' + char.charCodeAt(i).toString(16).padStart(4, '0')).join('');
const PLAIN = /^[\x20-\x7e]*$/;

// A text in double quotes, as JSON has it.
function quoted(text) {
  const json = JSON.stringify(text);
  return PLAIN.test(json) ? json : json.replace(HIDDEN, escaped);
}

// What a text begins with that reads as a line of ours.
const ROLE = [...STRUCTURE, 'iframe', 'canvas'].join('|');
const OURS = new RegExp([
  '[\\[\\uff3b\\u3010]\\s*\\d+\\s*[\\]\\uff3d\\u3011]',  // an element
  `(?:${ROLE})(?:$| level=| value=| busy$|:)`,
  `(?:${[...ROLES, ...STRUCTURE, ...Object.values(TAG_ROLES), ...Object.values(INPUT_ROLES)].join('|')}|text|iframe|option|marked text:) ?"`,
  'scrolls: \\d', `(?:\\S+ )?(?:${[...SHAPES].join('|')})(?: outline)? (?:[\\d.]+x[\\d.]+ at|from [\\d.-]+,)`,
  '\\.\\.\\. (?:left out|cut:|\\d+ (?:lines|more)|the page (?:goes on|is longer))',
  '(?:Goal|Page|Last action|Error|[Uu]ser|[Aa]ssistant|[Ss]ystem):', '</?page>',  // around the outline in a prompt
  '(?:no change|new page:|much changed, the whole page:|changed:)$',
  `.*\\[\\d+\\] (?:${[...ROLES].join('|')}) "`,
  '.*\\{"[a-z_]+":',  // an action, as prompts have them behind elements
].map((part) => `^(?:${part})`).join('|'));

// A text's line: as it stands, or in quotes where it could be taken for something else.
const textLine = (text) => OURS.test(text) || !PLAIN.test(text) && text.search(HIDDEN) >= 0 ? `text ${quoted(text)}` : text;

// A text that has what reads as a note of ours, `(3 red boxes)` or `icon "trash"`, in pieces: each and whether it is ours.
// Null where the page wrote nothing of the kind, which is nearly always. `notes`: where ours are.
const NOTE = /\((?:\d+ )?#?\w+ box(?:es)?\)|\bicon "/i;
function pageWrites(text, notes) {
  const pieces = [];
  let end = 0;
  for (const [from, to] of [...notes, [text.length, text.length]]) {
    pieces.push([squeeze(text.slice(end, from)), false], [squeeze(text.slice(from, to)), true]);
    end = to;
  }
  const forged = NOTE.test(pieces.map(([piece, ours]) => ours ? '' : piece).join(' '));
  return forged ? pieces.filter(([piece]) => piece) : null;
}
const cutLine = (text, whole) => `text ${quoted(text)} (${whole} characters, cut)`;
