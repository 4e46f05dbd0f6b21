"""The libraries that real pages are made of. They come from npm once, into the cache; without npm these are skipped."""

import http.server
import shutil
import subprocess
import threading

import gymnasium
import pytest

from selfsurf.browser_env.session.browsers import cache_home
from tests.in_page import value

pytestmark = pytest.mark.slow

PACKAGES = {
    "react": "18.3.1", "react-dom": "18.3.1", "vue": "3.5.13", "quill": "2.0.3", "tinymce": "6.8.5", "jquery": "3.7.1",
    "jquery-ui": "1.14.1", "sortablejs": "1.15.6", "imask": "7.6.1", "codemirror": "6.0.1",
    "prosemirror-example-setup": "1.2.3", "prosemirror-schema-basic": "1.2.3", "esbuild": "0.24.2",
    "bootstrap": "5.3.3", "uikit": "3.21.13", "@popperjs/core": "2.11.8", "tippy.js": "6.3.7", "tom-select": "2.4.1",
    "slim-select": "2.9.2", "nice-select2": "2.2.0", "flatpickr": "4.6.13", "nouislider": "15.8.1", "dragula": "3.7.3",
    "interactjs": "1.10.27", "ace-builds": "1.36.5", "jodit": "4.2.47", "trix": "2.1.8", "awesomplete": "1.1.5",
    "tabulator-tables": "6.3.0", "swiper": "11.1.15", "alpinejs": "3.14.3", "htmx.org": "2.0.3", "micromodal": "0.4.10",
    "monaco-editor": "0.52.2", "@tiptap/core": "3.34.0", "@tiptap/pm": "3.34.0", "@tiptap/starter-kit": "3.34.0",
    "slate": "0.146.0", "slate-dom": "0.146.1", "slate-react": "0.146.1", "slate-history": "0.115.0",
    "lexical": "0.52.0", "@lexical/rich-text": "0.52.0", "@lexical/history": "0.52.0",
    "muuri": "0.9.5", "choices.js": "11.1.0", "select2": "4.0.13", "react-select": "5.10.1", "jquery.fancytree": "2.38.5",
    "ckeditor5": "44.3.0", "@mui/material": "6.4.0", "@emotion/react": "11.14.0", "@emotion/styled": "11.14.0",
    "@radix-ui/react-dropdown-menu": "2.2.1", "@blueprintjs/core": "5.9.1", "@fluentui/react-menu": "9.25.7", "@fluentui/react-provider": "9.22.22",
    "@fluentui/react-theme": "9.2.2", "@tarekraafat/autocomplete.js": "10.2.10", "corejs-typeahead": "1.3.4",
    "tributejs": "5.1.3", "infinite-scroll": "5.0.0",
}  # fmt: skip

BUNDLES = {
    "codemirror": """import {EditorView, basicSetup} from 'codemirror';
        window.editor = new EditorView({doc: 'old\\ntext', extensions: [basicSetup], parent: ed});""",
    "prosemirror": """import {EditorState} from 'prosemirror-state'; import {EditorView} from 'prosemirror-view';
        import {DOMParser} from 'prosemirror-model'; import {schema} from 'prosemirror-schema-basic';
        import {exampleSetup} from 'prosemirror-example-setup'; const el = document.createElement('div'); el.innerHTML = '<p>old</p>';
        window.view = new EditorView(ed, {state: EditorState.create({doc: DOMParser.fromSchema(schema).parse(el), plugins: exampleSetup({schema, menuBar: false})})});""",
    "tiptap": """import {Editor} from '@tiptap/core'; import StarterKit from '@tiptap/starter-kit';
        window.tiptap = new Editor({element: ed, extensions: [StarterKit], content: '<p>old</p>'});""",
    "slate": """import {createElement as e, useState} from 'react'; import {createRoot} from 'react-dom/client';
        import {createEditor, Node} from 'slate'; import {Slate, Editable, withReact} from 'slate-react'; import {withHistory} from 'slate-history';
        const App = () => { const [editor] = useState(() => withHistory(withReact(createEditor()))); window.slate = editor;
          return e(Slate, {editor, initialValue: [{type: 'paragraph', children: [{text: 'old'}]}]}, e(Editable, {'aria-label': 'Text'})); };
        window.slateText = () => window.slate.children.map((node) => Node.string(node)).join('\\n'); createRoot(ed).render(e(App));""",
    "lexical": """import {createEditor, $getRoot, $createParagraphNode, $createTextNode} from 'lexical'; import {registerRichText} from '@lexical/rich-text';
        import {createEmptyHistoryState, registerHistory} from '@lexical/history'; const editor = createEditor({onError: console.error});
        editor.setRootElement(ed); registerRichText(editor); registerHistory(editor, createEmptyHistoryState(), 300);
        editor.update(() => $getRoot().append($createParagraphNode().append($createTextNode('old'))));
        window.lexicalText = () => editor.getEditorState().read(() => $getRoot().getTextContent());""",
    "bold-prosemirror": """import {EditorState} from 'prosemirror-state'; import {EditorView} from 'prosemirror-view'; import {toggleMark} from 'prosemirror-commands';
        import {DOMParser} from 'prosemirror-model'; import {schema} from 'prosemirror-schema-basic'; const el = document.createElement('div'); el.innerHTML = '<p>one two three</p>';
        const view = new EditorView(ed, {state: EditorState.create({doc: DOMParser.fromSchema(schema).parse(el)})});
        bold.onmousedown = (e) => { e.preventDefault(); toggleMark(schema.marks.strong)(view.state, view.dispatch); };""",
    "bold-tiptap": """import {Editor} from '@tiptap/core'; import StarterKit from '@tiptap/starter-kit';
        const editor = new Editor({element: ed, extensions: [StarterKit], content: '<p>one two three</p>'}); bold.onclick = () => editor.chain().focus().toggleBold().run();""",
    "bold-slate": """import {createElement as e, useState, useCallback} from 'react'; import {createRoot} from 'react-dom/client';
        import {createEditor, Editor} from 'slate'; import {Slate, Editable, withReact} from 'slate-react'; import {withHistory} from 'slate-history';
        const App = () => { const [editor] = useState(() => withHistory(withReact(createEditor()))); bold.onmousedown = (ev) => { ev.preventDefault(); Editor.addMark(editor, 'bold', true); };
          const renderLeaf = useCallback(({attributes, children, leaf}) => e('span', attributes, leaf.bold ? e('strong', null, children) : children), []);
          return e(Slate, {editor, initialValue: [{type: 'paragraph', children: [{text: 'one two three'}]}]}, e(Editable, {'aria-label': 'Text', renderLeaf})); }; createRoot(ed).render(e(App));""",
    "bold-lexical": """import {createEditor, $getRoot, $createParagraphNode, $createTextNode, FORMAT_TEXT_COMMAND} from 'lexical'; import {registerRichText} from '@lexical/rich-text';
        const editor = createEditor({onError: console.error}); editor.setRootElement(ed.appendChild(Object.assign(document.createElement('div'), {contentEditable: true}))); registerRichText(editor);
        editor.update(() => $getRoot().append($createParagraphNode().append($createTextNode('one two three')))); bold.onclick = () => editor.dispatchCommand(FORMAT_TEXT_COMMAND, 'bold');""",
    "bold-ckeditor": """import {ClassicEditor, Essentials, Bold, Paragraph} from 'ckeditor5';
        ClassicEditor.create(ed, {licenseKey: 'GPL', plugins: [Essentials, Bold, Paragraph], toolbar: ['bold'], initialData: '<p>one two three</p>'}).then((editor) => { window.ck = editor; });""",
    "choose-react-select": """import {createElement as e} from 'react'; import {createRoot} from 'react-dom/client'; import Select from 'react-select';
        const options = ['Rope', 'Ball', 'Hoop'].map((value) => ({value, label: value}));
        createRoot(root).render(e(Select, {...window.props, 'aria-label': 'Toys', options, onChange: (now) => { window.chosen = [now].flat().map((one) => one.value); }}));""",
    "choose-mui": """import {createElement as e, useState} from 'react'; import {createRoot} from 'react-dom/client'; import {Select, MenuItem} from '@mui/material';
        const App = () => { const {multiple} = window.props; const [value, set] = useState(multiple ? [] : '');
          const onChange = (event) => { set(event.target.value); window.chosen = [event.target.value].flat(); };
          return e(Select, {multiple, value, onChange, inputProps: {'aria-label': 'Toys'}, style: {width: 200}}, ['Rope', 'Ball', 'Hoop'].map((name) => e(MenuItem, {key: name, value: name}, name))); };
        createRoot(root).render(e(App));""",
    "radix": """import {createElement as e} from 'react'; import {createRoot} from 'react-dom/client'; import * as M from '@radix-ui/react-dropdown-menu';
        const sub = e(M.Sub, null, e(M.SubTrigger, null, 'More'), e(M.Portal, null, e(M.SubContent, null, e(M.Item, null, 'Deep'))));
        createRoot(ed).render(e(M.Root, null, e(M.Trigger, null, 'Open'), e(M.Portal, null, e(M.Content, null, e(M.Item, null, 'Copy'), sub))));""",
    "blueprint": """import {createElement as e} from 'react'; import {createRoot} from 'react-dom/client'; import {Menu, MenuItem} from '@blueprintjs/core';
        createRoot(ed).render(e(Menu, null, e(MenuItem, {text: 'Copy'}), e(MenuItem, {text: 'More'}, e(MenuItem, {text: 'Deep'}))));""",
    "fluent": """import {createElement as e} from 'react'; import {createRoot} from 'react-dom/client';
        import {Menu, MenuItem, MenuList, MenuPopover, MenuTrigger} from '@fluentui/react-menu';
        import {FluentProvider} from '@fluentui/react-provider'; import {webLightTheme} from '@fluentui/react-theme';
        const sub = e(Menu, null, e(MenuTrigger, null, e(MenuItem, null, 'More')), e(MenuPopover, null, e(MenuList, null, e(MenuItem, null, 'Deep'))));
        const list = e(MenuList, null, e(MenuItem, null, 'Copy'), sub);
        createRoot(ed).render(e(FluentProvider, {theme: webLightTheme}, e(Menu, null, e(MenuTrigger, null, e('button', null, 'Open')), e(MenuPopover, null, list))));""",
    "react-select": """import {createElement as e} from 'react'; import {createRoot} from 'react-dom/client'; import AsyncSelect from 'react-select/async';
        const found = (text) => fetch('/page').then(() => [{value: 1, label: text + 'lo'}]);
        const loadOptions = (text) => new Promise((done) => setTimeout(() => done(found(text)), 400));
        createRoot(ed).render(e(AsyncSelect, {'aria-label': 'City', loadOptions}));""",
}


@pytest.fixture(scope="module")
def packages():
    folder = cache_home() / "test-pages"
    folder.mkdir(parents=True, exist_ok=True)
    if not all((folder / "node_modules" / name).exists() for name in PACKAGES):
        if not shutil.which("npm"):
            pytest.skip("npm is not installed")
        wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--legacy-peer-deps", *wanted],
            cwd=folder,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("npm could not install the packages")
    for name, source in BUNDLES.items():
        if not (folder / f"{name}.bundle.js").exists():
            (folder / f"{name}.js").write_text(source)
            command = [
                "node_modules/.bin/esbuild",
                f"{name}.js",
                "--bundle",
                f"--outfile={name}.bundle.js",
                "--log-level=error",
            ]
            subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.fixture
def open_with(packages):
    class Pages(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(packages))

        def do_GET(self):
            if self.path != "/page":
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(self.server.html.encode())

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    envs = []

    def open_it(body, *scripts):
        sources = "".join(
            f"<script src=/{script if '/' not in script else 'node_modules/' + script}></script>" for script in scripts
        )
        head, _, tail = body.partition("<script>")
        server.html = f"<!doctype html><title>page</title>{head}{sources}{'<script>' + tail if tail else ''}"
        env = gymnasium.make("Browser-v0", start_url=f"http://127.0.0.1:{server.server_port}/page", viewport=(900, 700))
        envs.append(env)
        return env, env.reset(seed=0)[0]

    yield open_it
    for env in envs:
        env.close()
    server.shutdown()
    server.server_close()


def do(env, *actions):
    for action in actions:
        obs, *_ = env.step(action)
        assert obs["last_error"] == "", action
    return obs


def test_react_sees_fill_type_select_and_check(open_with):
    env, _ = open_with(
        """<div id=root></div><script>const e = React.createElement; function App() {
        const [s, set] = React.useState({name: 'old', day: '', vol: '5', size: 'S', ok: false}); const put = (k, p = 'value') => (ev) => set({...s, [k]: ev.target[p]});
        return e('form', null, e('input', {'aria-label': 'name', value: s.name, onChange: put('name')}), e('input', {'aria-label': 'day', type: 'date', value: s.day, onChange: put('day')}),
        e('input', {'aria-label': 'vol', type: 'range', value: s.vol, onChange: put('vol')}), e('select', {'aria-label': 'size', value: s.size, onChange: put('size')}, e('option', null, 'S'), e('option', null, 'L')),
        e('input', {'aria-label': 'ok', type: 'checkbox', checked: s.ok, onChange: put('ok', 'checked')}), e('p', null, JSON.stringify(s))) }
        ReactDOM.createRoot(root).render(e(App))</script>""",
        "react/umd/react.production.min.js", "react-dom/umd/react-dom.production.min.js",
    )  # fmt: skip
    obs = do(
        env,
        "page.get_by_label('name').fill('Ada')",
        "page.get_by_label('name').press_sequentially(' L')",
        "page.get_by_label('day').fill('2026-01-31')",
        "page.get_by_label('vol').fill('40')",
        "page.get_by_label('size').select_option('L')",
        "page.get_by_label('ok').check()",
    )
    assert '{"name":"Ada L","day":"2026-01-31","vol":"40","size":"L","ok":true}' in obs["page_text"]


def test_vue_sees_fill_select_and_check(open_with):
    env, _ = open_with(
        """<div id=app><input aria-label=name v-model=name><select aria-label=size v-model=size multiple><option>S<option>L</select><input type=checkbox aria-label=ok v-model=ok><p>{{ name }}|{{ size.join() }}|{{ ok }}</p></div>
        <script>Vue.createApp({data: () => ({name: '', size: [], ok: false})}).mount('#app')</script>""",
        "vue/dist/vue.global.prod.js",
    )
    obs = do(
        env,
        "page.get_by_label('name').fill('Ada')",
        "page.get_by_label('size').select_option(['S', 'L'])",
        "page.get_by_label('ok').check()",
    )
    assert "Ada|S,L|true" in obs["page_text"]


def test_a_masked_input(open_with):
    env, _ = open_with(
        "<input id=i aria-label=card><script>IMask(i, {mask: '0000-0000'})</script>", "imask/dist/imask.min.js"
    )
    for action in ("fill('12345678')", "clear()", "press_sequentially('87654321')"):
        obs = do(env, f"page.get_by_label('card').{action}")
    assert obs["elements"][0]["value"] == "8765-4321"


EDITORS = {
    "quill": ("<div id=ed><p>old</p></div><script>window.q = new Quill('#ed')</script>", ["quill/dist/quill.js"], ".ql-editor", "q.getText()", "q.root.innerHTML"),
    "codemirror": ("<div id=ed></div>", ["codemirror.bundle.js"], ".cm-content", "editor.state.doc.toString()", None),
    "prosemirror": ("<div id=ed></div>", ["prosemirror.bundle.js"], ".ProseMirror", "view.dom.innerText", "view.dom.innerHTML"),
    "tinymce": (
        "<textarea id=ed>old</textarea><script>tinymce.init({selector: '#ed', promotion: false, license_key: 'gpl'})</script>",
        ["tinymce/tinymce.min.js"], "body#tinymce", "tinymce.activeEditor.getContent({format: 'text'})", "tinymce.activeEditor.getContent()",
    ),
    "tiptap": ("<div id=ed></div>", ["tiptap.bundle.js"], ".ProseMirror", "tiptap.getText()", "tiptap.getHTML()"),
    "slate": ("<div id=ed></div>", ["slate.bundle.js"], "[data-slate-editor]", "slateText()", None),
    "lexical": ("<div id=ed contenteditable aria-label=Text></div>", ["lexical.bundle.js"], "#ed", "lexicalText()", None),
    "monaco": (
        "<div id=ed style='height:300px'></div><script>require.config({paths: {vs: '/node_modules/monaco-editor/min/vs'}}); "
        "require(['vs/editor/editor.main'], () => { window.mon = monaco.editor.create(ed, {value: 'old', language: 'python', quickSuggestions: false}) })</script>",
        ["monaco-editor/min/vs/loader.js"], ".monaco-editor textarea", "mon.getValue()", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITORS)
def test_a_rich_text_editor(open_with, name):
    page, scripts, target, text, html = EDITORS[name]
    env, _ = open_with(page, *scripts)
    core = env.unwrapped.core

    def read(expression):
        from selfsurf.browser_env.session.runtime import runtime

        return runtime().run(core.session.active.page.evaluate(expression)).replace("\u200b", "")

    do(env, {"action": "wait", "ms": 1500}, {"action": "fill", "selector": target, "text": "first\nsecond"})
    assert read(text).split() == ["first", "second"]
    do(env, {"action": "type", "selector": target, "text": " more"})
    assert read(text).split() == ["first", "second", "more"]
    do(
        env,
        {"action": "press", "key": "Backspace"},
        {"action": "press", "key": "Enter"},
        {"action": "type", "text": "end"},
    )
    assert read(text).split() == ["first", "second", "mor", "end"]
    do(env, {"action": "press", "key": "Control+z"})
    assert "end" not in read(text)
    if html:
        do(env, {"action": "press", "key": "Control+a"}, {"action": "press", "key": "Control+b"})
        assert "<strong>" in read(html)
    do(env, {"action": "fill", "selector": target, "text": ""})
    assert read(text).strip() == ""


@pytest.mark.parametrize("name", ["codemirror", "monaco"])
def test_two_thousand_lines_of_code(open_with, name):
    page, scripts, target, text, _ = EDITORS[name]
    env, _ = open_with(page, *scripts)
    code = "\n".join(f"{'    ' * (i % 4)}line {i}" for i in range(2000))
    do(env, {"action": "wait", "ms": 1500})
    obs, *_, info = env.step({"action": "fill", "selector": target, "text": code})
    assert (obs["last_error"], value(env, text)) == ("", code)
    assert info["timing"]["act"] < 2000


def test_jquery_ui_drag_slider_sortable_and_date_picker(open_with):
    env, _ = open_with(
        """<style>.ui-slider{position:relative;width:200px;height:12px;background:silver}.ui-slider-handle{position:absolute;width:12px;height:12px;background:red}li{height:30px;width:150px}</style>
        <div id=drag style="width:60px;height:30px;background:gold">drag</div><div id=bin style="width:120px;height:60px;background:silver">bin</div><div id=slider style="margin:20px 0"></div>
        <ul id=list><li>one<li>two<li>three</ul><input id=day aria-label=day autocomplete=off><p id=out></p>
        <script>$('#drag').draggable(); $('#bin').droppable({drop: () => $('#out').append('dropped ')}); $('#slider').slider({change: (e, ui) => $('#out').append('slid' + ui.value + ' ')});
        $('#list').sortable({update: () => $('#out').append($('#list').sortable('instance').element.text().replace(/\\s+/g, '') + ' ')}); $('#day').datepicker({defaultDate: '01/01/2026'})</script>""",
        "jquery/dist/jquery.min.js", "jquery-ui/dist/jquery-ui.min.js",
    )  # fmt: skip
    obs = do(env, {"action": "drag", "from": "#drag", "to": "#bin"})
    assert "dropped" in obs["page_text"]
    box = next(
        element["bbox"] for element in obs["elements"] if "slider-handle" in str(element) or element["tag"] == "span"
    )
    obs = do(env, {"action": "drag", "from": ".ui-slider-handle", "to": [box[0] + 106, box[1] + 6]})
    assert "slid5" in obs["page_text"]
    obs = do(env, {"action": "drag", "from": "text=one", "to": "text=three"})
    assert "twothreeone" in obs["page_text"] or "twoonethree" in obs["page_text"]
    obs = do(env, "page.get_by_label('day').click()", "page.get_by_role('link', name='31', exact=True).click()")
    assert next(element for element in obs["elements"] if element["name"] == "day")["value"].endswith("/31/2026")


def test_sortablejs(open_with):
    env, _ = open_with(
        "<style>li{height:30px;width:150px}</style><ul id=list><li>one<li>two<li>three</ul><script>Sortable.create(list)</script>",
        "sortablejs/Sortable.min.js",
    )
    obs = do(env, {"action": "drag", "from": "text=one", "to": "text=three"})
    assert obs["page_text"].split() in (["two", "three", "one"], ["two", "one", "three"])
