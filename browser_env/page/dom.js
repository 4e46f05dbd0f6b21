// DOM access that a page can't override. In a form, a field named like a property shadows that property
// (`<input name="title">`), and so do images and frames in a document: use only these for forms and documents.

const getter = (proto, name) => Function.prototype.call.bind(Object.getOwnPropertyDescriptor(proto, name).get);
const method = (proto, name) => Function.prototype.call.bind(proto[name]);
const DOC = {};
for (const name of ['documentElement', 'scrollingElement', 'activeElement', 'links', 'URL', 'title', 'designMode', 'body', 'defaultView', 'styleSheets', 'adoptedStyleSheets']) {
  DOC[name] = getter(Document.prototype, name);
}
for (const name of ['elementFromPoint', 'elementsFromPoint', 'querySelectorAll', 'getElementsByTagName', 'createRange', 'getSelection', 'hasFocus', 'getAnimations']) {
  DOC[name] = method(Document.prototype, name);
}
const typeOf = getter(Node.prototype, 'nodeType');
const parentOf = getter(Node.prototype, 'parentElement');
const firstOf = getter(Node.prototype, 'firstChild');
const nextOf = getter(Node.prototype, 'nextSibling');
const textOf = getter(Node.prototype, 'textContent');
const placeOf = method(Node.prototype, 'compareDocumentPosition');
const treeOf = method(Node.prototype, 'getRootNode');
const childrenOf = getter(Node.prototype, 'childNodes');
const aboveOf = getter(Node.prototype, 'parentNode');
const documentOf = getter(Node.prototype, 'ownerDocument');
const tagOf = getter(Element.prototype, 'localName');
const slotOfElement = getter(Element.prototype, 'assignedSlot');
const slotOfText = getter(Text.prototype, 'assignedSlot');
const slotOf = (node) => typeOf(node) === 1 ? slotOfElement(node) : typeOf(node) === 3 ? slotOfText(node) : null;
const shadowOf = getter(Element.prototype, 'shadowRoot');
const attributeOf = method(Element.prototype, 'getAttribute');
const matchesOf = method(Element.prototype, 'matches');
const isVisible = method(Element.prototype, 'checkVisibility');
const animationsOf = method(Element.prototype, 'getAnimations');
const closestTo = method(Element.prototype, 'closest');
const allIn = method(Element.prototype, 'querySelectorAll');
const firstIn = method(Element.prototype, 'querySelector');
const rectOf = method(Element.prototype, 'getBoundingClientRect');
const dispatch = method(EventTarget.prototype, 'dispatchEvent');
