// Keeps a page up to date, and answers the keyboard. All pages work without it.
'use strict';

// Before anything is shown.
const root = document.documentElement;
const remembered = () => { try { return localStorage.getItem('delayed-theme'); } catch { return null; } };
if (remembered()) root.dataset.theme = remembered();

const toggleTheme = () => {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const now = root.dataset.theme || (dark ? 'dark' : 'light');
  root.dataset.theme = now === 'dark' ? 'light' : 'dark';
  try { localStorage.setItem('delayed-theme', root.dataset.theme); } catch { /* a private window */ }
};

// Changes what is there into what should be there, and leaves alone what somebody is filling in.
const morph = (from, to) => {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
    from.replaceWith(to.cloneNode(true));
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(from.nodeName) && from.type !== 'hidden') return;
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && name !== 'open') from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  morphChildren(from, to);
};

const morphChildren = (from, to) => {
  const before = [...from.childNodes];
  const after = [...to.childNodes];
  after.forEach((node, at) => {
    if (at < before.length) morph(before[at], node);
    else from.append(node.cloneNode(true));
  });
  before.slice(after.length).forEach((node) => node.remove());
};

const begin = () => {
  const content = document.getElementById('content');
  const trouble = document.getElementById('trouble');
  const say = (text) => { trouble.textContent = text; trouble.hidden = !text; };
  let source = null;

  const listen = () => {
    if (source) return;
    source = new EventSource(location.pathname + location.search);
    source.addEventListener('page', (event) => {
      say('');
      const next = new DOMParser().parseFromString(event.data, 'text/html').body;
      morphChildren(content, next);
    });
    source.addEventListener('trouble', (event) => say(event.data));
    source.onopen = () => { if (trouble.dataset.lost) { delete trouble.dataset.lost; say(''); } };
    source.onerror = () => {
      trouble.dataset.lost = 'yes';
      say('The dashboard does not answer. This page shows what was known last, and tries again.');
      if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(listen, 3000); }
    };
  };
  const rest = () => { if (source) { source.close(); source = null; } };

  if (document.body.dataset.live) {
    listen();
    // A page that nobody sees costs nothing.
    document.addEventListener('visibilitychange', () => (document.hidden ? rest() : listen()));
    addEventListener('pagehide', rest);
    addEventListener('pageshow', listen);
  }

  document.getElementById('theme')?.addEventListener('click', toggleTheme);
  const help = document.getElementById('help');
  document.getElementById('help-button')?.addEventListener('click', () => help.showModal());
  document.addEventListener('click', (event) => {
    const button = event.target.closest('[data-copy]');
    if (!button) return;
    navigator.clipboard?.writeText(button.dataset.copy).then(() => {
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
  });

  let prefix = false;
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName)) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    if (prefix) {
      prefix = false;
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    if (event.key === 'g') { prefix = true; setTimeout(() => { prefix = false; }, 1500); }
    if (event.key === '/') { event.preventDefault(); document.getElementById('search')?.focus(); }
    if (event.key === '?') help?.showModal();
    if (event.key === 't') toggleTheme();
  });
};

if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', begin);
else begin();
