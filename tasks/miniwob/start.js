// Starts an episode without a navigation, following the protocol of MiniWoB++'s core.js. The page is reset as if newly
// loaded: otherwise an edited text area would not show the text set by the next episode, a scrolled one would not show
// its beginning, and jQuery UI's messages to screen readers would remain.
async ([seed, mode, limit, scale]) => {
  document.activeElement?.blur();
  if (core.EP_TIMER !== null) core.endEpisode(0);
  const form = document.body.appendChild(document.createElement('form'));
  form.id = 'all-fields';
  const fields = document.querySelectorAll('input, select, textarea');
  for (const field of fields) field.setAttribute('form', form.id);
  form.reset();
  for (const field of fields) {
    field.removeAttribute('form');
    field.scrollTop = field.scrollLeft = 0;
  }
  for (const said of document.querySelectorAll('.ui-helper-hidden-accessible[aria-live]')) said.replaceChildren();
  form.remove();
  Math.seedrandom(seed);
  core.setDataMode?.(mode);
  core.EPISODE_MAX_TIME = limit;
  core.startEpisode = () => {};  // otherwise a black START covers the end of an episode
  core.startEpisodeReal();
  core.EPISODE_MAX_TIME = scale;  // the timer is set: from here on this scales the reward
  core.hideDisplay();
  const end = performance.now() + 10000;
  while (!WOB_TASK_READY && performance.now() < end) await new Promise((done) => setTimeout(done, 1));
  const goal = core.getUtterance();
  return [typeof goal === 'string' ? goal : goal.utterance, WOB_TASK_READY];
}
