// Signs that a page has not finished though its DOM is still: indicators of loading, and whether anything has changed
// since it was last looked at.

const LOADING = '[aria-busy=true], [role=progressbar]:not([aria-valuenow]), progress:not([value]), [role=status], [role=alert], [aria-live], [class*=spinner i], [class*=loading i], [class*=loader i]';
const LOADING_CLASS = /(^|[\s_-])(spinner|loading|loader)([\s_-]|$)/i;
const LOADING_TEXT = /^\W*(loading|please wait|searching|fetching|one moment|working)\b/i;
const outlived = new WeakSet();
let mutationsSeen = -1;

function isLoading(el) {
  const rect = el.getBoundingClientRect();
  if (!rect.width || !rect.height || rect.top > innerHeight || rect.bottom < 0 || !el.checkVisibility({opacityProperty: true, visibilityProperty: true})) return false;
  if (ariaOf(el, 'busy') || el.localName === 'progress' || el.getAttribute('role') === 'progressbar') return true;
  if (el.textContent.length < 60 && LOADING_TEXT.test(el.textContent)) return true;
  return LOADING_CLASS.test(el.className.baseVal ?? el.className) && el.getAnimations({subtree: true}).some((one) => one.playState === 'running');
}

const loadingNow = () => Array.from(document.querySelectorAll(LOADING)).filter((el) => !outlived.has(el) && isLoading(el));

// What has happened since the page was last looked at: `stirred` whether the DOM has changed, `busy` whether it shows
// an indicator of loading that no earlier wait has outlived.
function signs() {
  const stirred = mutations !== mutationsSeen;
  mutationsSeen = mutations;
  return {stirred, busy: stirred && loadingNow().length > 0};
}

// Resolves when `done` says so or after `bound` milliseconds; asked whenever the DOM changes and every 50 milliseconds,
// since style sheets can hide things without that.
function until(done, bound) {
  return new Promise((resolve) => {
    const finish = (answer) => { observer.disconnect(); clearInterval(timer); clearTimeout(end); resolve(answer); };
    const ask = (records) => { if (done(records)) finish(true); };
    const observer = new MutationObserver(ask);
    observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    const timer = setInterval(ask, 50, []);
    const end = setTimeout(finish, bound, false);
  });
}

// Waits for indicators of loading to go; those that stay are not waited for again.
async function loaded({bound}) {
  const gone = await until(() => !loadingNow().length, bound);
  if (!gone) for (const el of loadingNow()) outlived.add(el);
  mutationsSeen = -1;
  return gone;
}

// Waits for the first change of the DOM.
const firstSign = ({bound}) => until((records) => records.length > 0, bound);
