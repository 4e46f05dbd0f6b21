// Adds what a headless Chromium lacks in comparison to one with a window, where it is missing.
(() => {
  const getter = (owner, name, value) => {
    const known = Object.getOwnPropertyDescriptor(owner, name);
    if (!known || !known.get) return;
    // A proxy of the native getter still prints as native code.
    const get = new Proxy(known.get, { apply: (target, self, args) => value(Reflect.apply(target, self, args)) });
    Object.defineProperty(owner, name, { ...known, get });
  };

  if (!("chrome" in window)) {
    const now = () => performance.timeOrigin;
    const chrome = {
      app: { isInstalled: false, getDetails: () => null, getIsInstalled: () => false, runningState: () => "cannot_run" },
      csi: () => ({ onloadT: Math.round(now()), startE: Math.round(now()), pageT: performance.now(), tran: 15 }),
      loadTimes: () => ({ requestTime: now() / 1000, startLoadTime: now() / 1000, navigationType: "Other" }),
    };
    Object.defineProperty(window, "chrome", { value: chrome, writable: true, enumerable: true, configurable: false });
  }

  // A headless browser denies notifications without asking, yet answers a query with "prompt".
  if (window.isSecureContext && window.Notification) {
    getter(Notification, "permission", (known) => (known === "denied" ? "default" : known));
  }

  if (window.NavigatorUAData) {
    getter(NavigatorUAData.prototype, "brands", (known) => known.filter(({brand}) => !/headless/i.test(brand)));
  }

  if (navigator.plugins.length === 0 && window.PluginArray) {
    const names = ["PDF Viewer", "Chrome PDF Viewer", "Chromium PDF Viewer", "Microsoft Edge PDF Viewer",
      "WebKit built-in PDF"];
    const make = (kind, fields) => {
      const made = Object.create(kind.prototype);
      for (const [name, value] of Object.entries(fields)) Object.defineProperty(made, name, { value, enumerable: true });
      return made;
    };
    const list = (kind, items, key) => {
      const made = make(kind, { length: items.length });
      const lookUp = {
        item: (index) => items[index] ?? null,
        namedItem: (name) => items.find((item) => item[key] === name) ?? null,
        [Symbol.iterator]: () => items[Symbol.iterator](),
      };
      items.forEach((item, index) => Object.defineProperty(made, index, { value: item, enumerable: true }));
      for (const item of items) Object.defineProperty(made, item[key], { value: item });
      for (const name of Reflect.ownKeys(lookUp)) Object.defineProperty(made, name, { value: lookUp[name] });
      return made;
    };
    const types = ["application/pdf", "text/pdf"].map((type) =>
      make(MimeType, { type, suffixes: "pdf", description: "Portable Document Format" }));
    const plugins = names.map((name) =>
      make(Plugin, { name, filename: "internal-pdf-viewer", description: "Portable Document Format", length: 2 }));
    for (const type of types) Object.defineProperty(type, "enabledPlugin", { value: plugins[0] });
    const [pluginArray, mimeTypeArray] = [list(PluginArray, plugins, "name"), list(MimeTypeArray, types, "type")];
    getter(Navigator.prototype, "plugins", () => pluginArray);
    getter(Navigator.prototype, "mimeTypes", () => mimeTypeArray);
    getter(Navigator.prototype, "pdfViewerEnabled", () => true);
  }
})();
