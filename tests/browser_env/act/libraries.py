"""The table of trials: widgets of libraries from npm, the gesture that an agent makes, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass

Step = dict[str, object] | set[str] | str
"""An action in its compact form, with elements by their names; words that the observation must hold; or an expression
that must be true in the page."""

VERSIONS = {
    "react": "18.3.1", "react-dom": "18.3.1", "vue": "3.5.13", "quill": "2.0.3", "tinymce": "6.8.5", "jquery": "3.7.1",
    "jquery-ui": "1.14.1", "sortablejs": "1.15.6", "imask": "7.6.1", "codemirror": "6.0.1",
    "prosemirror-example-setup": "1.2.3", "prosemirror-schema-basic": "1.2.3", "esbuild": "0.24.2",
    "bootstrap": "5.3.3", "uikit": "3.21.13", "@popperjs/core": "2.11.8", "tippy.js": "6.3.7", "tom-select": "2.4.1",
    "slim-select": "2.9.2", "nice-select2": "2.2.0", "flatpickr": "4.6.13", "nouislider": "15.8.1", "dragula": "3.7.3",
    "interactjs": "1.10.27", "ace-builds": "1.36.5", "jodit": "4.2.47", "trix": "2.1.8", "awesomplete": "1.1.5",
    "tabulator-tables": "6.3.0", "swiper": "11.1.15", "alpinejs": "3.14.3", "htmx.org": "2.0.3", "micromodal": "0.4.10",
    "monaco-editor": "0.52.2", "@tiptap/core": "3.34.0", "@tiptap/pm": "3.34.0", "@tiptap/starter-kit": "3.34.0",
    "slate": "0.146.0", "slate-dom": "0.146.1", "slate-react": "0.146.1", "slate-history": "0.115.0",
    "lexical": "0.52.0", "@lexical/rich-text": "0.52.0", "@lexical/history": "0.52.0", "muuri": "0.9.5",
    "choices.js": "11.1.0", "select2": "4.0.13", "react-select": "5.10.1", "jquery.fancytree": "2.38.5",
    "ckeditor5": "44.3.0", "@mui/material": "6.4.0", "@emotion/react": "11.14.0", "@emotion/styled": "11.14.0",
    "@radix-ui/react-dropdown-menu": "2.2.1", "@blueprintjs/core": "5.9.1", "@fluentui/react-menu": "9.25.7",
    "@fluentui/react-provider": "9.22.22", "@fluentui/react-theme": "9.2.2", "@tarekraafat/autocomplete.js": "10.2.10",
    "corejs-typeahead": "1.3.4", "tributejs": "5.1.3", "infinite-scroll": "5.0.0",
    "air-datepicker": "3.6.0", "pikaday": "1.8.2", "react-datepicker": "9.1.0", "vanillajs-datepicker": "1.3.4",
    "litepicker": "2.0.12", "react-day-picker": "9.14.0", "@dnd-kit/core": "6.3.1", "@dnd-kit/sortable": "10.0.0",
    "@dnd-kit/utilities": "3.2.2", "@hello-pangea/dnd": "18.0.1", "jstree": "3.3.17", "ag-grid-community": "33.3.2",
    "handsontable": "15.3.0", "jspreadsheet-ce": "5.0.4", "downshift": "9.0.10", "@headlessui/react": "2.2.10",
    "@ariakit/react": "0.4.40", "antd": "5.29.3", "vuetify": "3.11.8", "element-plus": "2.14.8", "primevue": "4.5.4",
    "@primeuix/themes": "1.2.5", "@shoelace-style/shoelace": "2.20.1", "rc-slider": "11.1.9",
    "dropzone": "6.0.0-beta.2", "filepond": "4.32.12", "glightbox": "3.3.1", "driver.js": "1.8.0",
    "@toast-ui/editor": "3.2.2", "react-aria-components": "1.22.1", "cmdk": "1.1.1", "sweetalert2": "11.26.25",
    "react-dropzone": "14.3.8", "@yaireo/tagify": "4.35.6", "@material/web": "2.5.0", "react-hook-form": "7.71.0",
    "photoswipe": "5.4.4", "ion-rangeslider": "2.3.1",
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One gesture on one page with a library's widget."""

    kind: str
    library: str
    page: str
    """The page's body. Its script may import packages: then it is bundled, with JSX."""
    gesture: list[Step]
    files: tuple[str, ...] = ()
    """Scripts and style sheets of packages that the page loads."""
    way: str = ""
    """Which gesture or widget, where a library has several trials."""
    told: str = ""
    """A pattern of the message that an agent is rightly given."""
    expected: str = "right"
    """The verdict, and behind a colon why it isn't `right`."""

    def __str__(self) -> str:
        return f"{self.library} {self.way}".strip()


def react(code: str) -> str:
    """Return a page that shows the React component `App`."""
    return f"""<div id=root></div><script>import {{createRoot}} from 'react-dom/client'; import * as React from 'react';
        const {{useState}} = React; {code}; createRoot(root).render(<App/>)</script>"""


JQUERY = ("jquery/dist/jquery.min.js",)
TOYS = "<label for=s>Toys</label><select id=s {} style='width:300px'><option>Rope<option>Ball<option>Hoop</select><script>{}</script>"
PETS = "<label for=s>Pet</label><select id=s aria-label=Pet><option value=''>-<option value=c>Cat<option value=d>Dog</select><script>{}</script>"
CHOSEN = "[...s.selectedOptions].map((one) => one.textContent).sort().join()"
CHOICES = ("choices.js/public/assets/styles/choices.min.css", "choices.js/public/assets/scripts/choices.min.js")
SELECT2 = ("select2/dist/css/select2.min.css", *JQUERY, "select2/dist/js/select2.min.js")
TOM = ("tom-select/dist/css/tom-select.css", "tom-select/dist/js/tom-select.complete.min.js")
SLIM = ("slim-select/dist/slimselect.css", "slim-select/dist/slimselect.umd.min.js")
NICE = ("nice-select2/dist/css/nice-select2.css", "nice-select2/dist/js/nice-select2.js")
REACT_SELECT = """import Select from 'react-select'; const options = ['Rope', 'Ball', 'Hoop'].map((value) => ({value, label: value}));
    const App = () => <Select %s aria-label="Toys" options={options} onChange={(now) => { window.chosen = [now].flat().map((one) => one.value).sort().join() }}/>"""
MUI = """import {Select, MenuItem} from '@mui/material'; const multiple = %s;
    const App = () => { const [value, set] = useState(multiple ? [] : '');
      const onChange = ({target}) => { set(target.value); window.chosen = [target.value].flat().sort().join() };
      return <Select multiple={multiple} value={value} onChange={onChange} inputProps={{'aria-label': 'Toys'}} style={{width: 200}}>
        {['Rope', 'Ball', 'Hoop'].map((name) => <MenuItem key={name} value={name}>{name}</MenuItem>)}</Select> }"""
BOX = "combobox:.*#-1"
BOTH: dict[str, object] = {"select": BOX, "options": ["Rope", "Ball"]}
LAST_ONLY = 'takes one option only: "Ball" is chosen instead of "Rope".'
VUE = ("vue/dist/vue.global.prod.js",)
ELEMENT = (*VUE, "element-plus/dist/index.css", "element-plus/dist/index.full.min.js")
VUETIFY = (*VUE, "vuetify/dist/vuetify.min.css", "vuetify/dist/vuetify.min.js")
PRIME = (*VUE, "@primeuix/themes/umd/aura.js", "primevue/umd/primevue.min.js")
SHOELACE = "<script>import '@shoelace-style/shoelace/dist/themes/light.css'; import '@shoelace-style/shoelace/dist/shoelace.js';</script>"


def element(body: str, data: str) -> str:
    return f"<div id=app>{body}</div><script>window.vm = Vue.createApp({{data: () => ({data})}}).use(ElementPlus).mount('#app')</script>"


def vuetify(body: str, data: str) -> str:
    return f"<div id=app><v-app>{body}</v-app></div><script>window.vm = Vue.createApp({{data: () => ({data})}}).use(Vuetify.createVuetify()).mount('#app')</script>"


def prime(body: str, data: str, *components: str) -> str:
    register = "".join(f".component('P{name}', PrimeVue.{name})" for name in components)
    return f"""<div id=app>{body}</div><script>window.vm = Vue.createApp({{data: () => ({data})}})
        .use(PrimeVue.Config, {{theme: {{preset: PrimeUIX.Themes.Aura}}}}){register}.mount('#app')</script>"""


LISTS = [
    Trial("lists", "tom-select", PETS.format("new TomSelect(s)"), [{"select": BOX, "option": "Dog"}, "s.value == 'd'", {"Dog"}], TOM),
    Trial("lists", "slim-select", PETS.format("new SlimSelect({select: s})"), [{"select": BOX, "option": "Dog"}, "s.value == 'd'", {"Dog"}], SLIM),
    Trial("lists", "nice-select2", PETS.format("NiceSelect.bind(s)"), [{"click": "generic:.*Cat Dog"}, {"click": "Dog"}, "s.value == 'd'", {"Dog"}], NICE),
    Trial("lists", "choices.js", TOYS.format("multiple", "new Choices(s)"), [BOTH, f"{CHOSEN} == 'Ball,Rope'"], CHOICES, "several"),
    Trial("lists", "choices.js", TOYS.format("multiple", "new Choices(s, {closeDropdownOnSelect: true, removeItemButton: true})"), [BOTH, f"{CHOSEN} == 'Ball,Rope'"], CHOICES, "that closes"),
    Trial("lists", "choices.js", TOYS.format("", "new Choices(s)"), [BOTH, f"{CHOSEN} == 'Ball'"], CHOICES, "two for one", told=LAST_ONLY),
    Trial("lists", "choices.js", TOYS.format("multiple", "new Choices(s, {maxItemCount: 1})"), [BOTH, f"{CHOSEN} == 'Rope'"], CHOICES, "one at most", told='Chosen: "Rope"; not chosen: "Ball".'),
    Trial("lists", "select2", TOYS.format("multiple", "$('#s').select2()"), [BOTH, f"{CHOSEN} == 'Ball,Rope'"], SELECT2, "several"),
    Trial("lists", "select2", TOYS.format("", "$('#s').select2()"), [BOTH, f"{CHOSEN} == 'Ball'"], SELECT2, "two for one", told=LAST_ONLY),
    Trial("lists", "tom-select", TOYS.format("multiple", "new TomSelect(s)"), [BOTH, f"{CHOSEN} == 'Ball,Rope'"], TOM, "several"),
    Trial("lists", "tom-select", TOYS.format("", "new TomSelect(s)"), [BOTH, f"{CHOSEN} == 'Ball'"], TOM, "two for one", told=LAST_ONLY),
    Trial("lists", "slim-select", TOYS.format("multiple aria-label=Toys", "new SlimSelect({select: s})"), [BOTH, f"{CHOSEN} == 'Ball,Rope'"], SLIM, "several"),
    Trial("lists", "react-select", react(REACT_SELECT % "isMulti"), [BOTH, "chosen == 'Ball,Rope'"], way="several"),
    Trial("lists", "react-select", react(REACT_SELECT % ""), [BOTH, "chosen == 'Ball'"], way="two for one", told=LAST_ONLY),
    Trial("lists", "@mui/material", react(MUI % "true"), [BOTH, "chosen == 'Ball,Rope'"], way="several"),
    Trial("lists", "@mui/material", react(MUI % "false"), [BOTH, "chosen == 'Ball'"], way="two for one", told=LAST_ONLY),
    Trial("lists", "antd", react("""import {Select} from 'antd';
        const App = () => <Select aria-label="Toys" style={{width: 200}} onChange={(now) => { window.chosen = now }} options={['Rope', 'Ball', 'Hoop'].map((value) => ({value}))}/>"""),
        [{"select": BOX, "option": "Ball"}, "chosen == 'Ball'", {"Ball"}], way="Select"),
    Trial("lists", "antd", react("""import {Select} from 'antd';
        const App = () => <Select mode="multiple" aria-label="Toys" style={{width: 200}} onChange={(now) => { window.chosen = now.sort().join() }} options={[...Array(60).keys()].map((n) => ({value: 'Toy ' + n}))}/>"""),
        [{"select": BOX, "options": ["Toy 3", "Toy 47"]}, "chosen == 'Toy 3,Toy 47'"], way="Select several of sixty"),
    Trial("lists", "antd", react("""import {Cascader} from 'antd'; const place = (value, ...children) => ({value, label: value, children: children.length ? children.map((city) => place(city)) : undefined}); const options = [place('Norway', 'Oslo', 'Bergen'), place('Italy', 'Rome')];
        const App = () => <Cascader aria-label="City" options={options} onChange={(now) => { window.chosen = now.join() }}/>"""),
        [{"click": BOX}, {"click": "Norway right"}, {"click": "Bergen"}, "chosen == 'Norway,Bergen'"], way="Cascader"),
    Trial("lists", "@headlessui/react", react("""import {Listbox, ListboxButton, ListboxOptions, ListboxOption} from '@headlessui/react';
        const App = () => { const [toy, set] = useState('Rope'); window.chosen = toy; return <Listbox value={toy} onChange={set}><ListboxButton>{toy}</ListboxButton>
          <ListboxOptions anchor="bottom">{['Rope', 'Ball', 'Hoop'].map((name) => <ListboxOption key={name} value={name}>{name}</ListboxOption>)}</ListboxOptions></Listbox> }"""),
        [{"select": "button:Rope", "option": "Ball"}, "chosen == 'Ball'", {"Ball"}], way="Listbox"),
    Trial("lists", "@ariakit/react", react("""import * as A from '@ariakit/react';
        const App = () => <A.SelectProvider defaultValue="Rope" setValue={(now) => { window.chosen = now }}><A.SelectLabel>Toys</A.SelectLabel><A.Select/>
          <A.SelectPopover gutter={4} sameWidth>{['Rope', 'Ball', 'Hoop'].map((name) => <A.SelectItem key={name} value={name}/>)}</A.SelectPopover></A.SelectProvider>"""),
        [{"select": BOX, "option": "Ball"}, "chosen == 'Ball'"], way="Select"),
    Trial("lists", "react-aria-components", react("""import {Select, Label, Button, SelectValue, Popover, ListBox, ListBoxItem} from 'react-aria-components';
        const App = () => <Select onSelectionChange={(now) => { window.chosen = now }}><Label>Toys</Label><Button><SelectValue/></Button>
          <Popover><ListBox>{['Rope', 'Ball', 'Hoop'].map((name) => <ListBoxItem key={name} id={name}>{name}</ListBoxItem>)}</ListBox></Popover></Select>"""),
        [{"select": "button:.*Toys.*", "option": "Ball"}, "chosen == 'Ball'"], way="Select"),
    Trial("lists", "downshift", react("""import {useSelect} from 'downshift'; const items = ['Rope', 'Ball', 'Hoop'];
        const App = () => { const d = useSelect({items, onSelectedItemChange: ({selectedItem}) => { window.chosen = selectedItem }});
          return <div><label {...d.getLabelProps()}>Toys</label><div {...d.getToggleButtonProps()}>{d.selectedItem || 'Choose'}</div>
            <ul {...d.getMenuProps()}>{d.isOpen && items.map((item, index) => <li key={item} {...d.getItemProps({item, index})}>{item}</li>)}</ul></div> }"""),
        [{"select": BOX, "option": "Ball"}, "chosen == 'Ball'"], way="useSelect"),
    Trial("lists", "vuetify", vuetify("<v-select label=Toys v-model=toy :items=\"['Rope', 'Ball', 'Hoop']\"></v-select>", "{toy: null}"), [{"select": BOX, "option": "Ball"}, "vm.toy == 'Ball'"], VUETIFY, "v-select"),
    Trial("lists", "element-plus", element("<el-select v-model=toy aria-label=Toys style='width:200px'><el-option v-for=\"t in ['Rope', 'Ball', 'Hoop']\" :key=t :label=t :value=t></el-option></el-select>", "{toy: ''}"),
        [{"select": BOX, "option": "Ball"}, "vm.toy == 'Ball'"], ELEMENT, "el-select", expected="awkward: the placeholder covers the list, which a script's event opens"),
    Trial("lists", "primevue", prime("<p-select v-model=toy :options=\"['Rope', 'Ball', 'Hoop']\" aria-label=Toys placeholder=Choose></p-select>", "{toy: null}", "Select"), [{"select": BOX, "option": "Ball"}, "vm.toy == 'Ball'"], PRIME, "Select"),
    Trial("lists", "primevue", prime("<p-multi-select v-model=toys :options=\"['Rope', 'Ball', 'Hoop']\" aria-label=Toys placeholder=Choose></p-multi-select>", "{toys: []}", "MultiSelect"), [BOTH, "vm.toys.join() == 'Rope,Ball'"], PRIME, "MultiSelect"),
    Trial("lists", "@shoelace-style/shoelace", "<sl-select id=t label=Toys><sl-option value=r>Rope</sl-option><sl-option value=b>Ball</sl-option></sl-select>" + SHOELACE, [{"select": BOX, "option": "Ball"}, "t.value == 'b'"], way="sl-select"),
    Trial("lists", "@material/web", """<md-outlined-select id=t label=Toys><md-select-option value=r><div slot=headline>Rope</div></md-select-option><md-select-option value=b><div slot=headline>Ball</div></md-select-option></md-outlined-select>
        <script>import '@material/web/all.js'</script>""", [{"select": BOX, "option": "Ball"}, "t.value == 'b'"], way="select"),
]  # fmt: skip

SUGGESTIONS = [
    Trial("suggestions", "awesomplete", "<input id=i aria-label=City><script>new Awesomplete(i, {list: ['Berlin', 'Bern', 'Oslo'], minChars: 1})</script>",
        [{"type": "City", "text": "Ber"}, {"Bern", "Berlin"}, {"select": "City", "option": "Berlin"}, "i.value == 'Berlin'"], ("awesomplete/awesomplete.css", "awesomplete/awesomplete.min.js")),
    Trial("suggestions", "react-select", react("""import AsyncSelect from 'react-select/async'; const found = (text) => fetch('/').then(() => [{value: 1, label: text + 'lo'}]);
        const App = () => <AsyncSelect aria-label="City" loadOptions={(text) => new Promise((done) => setTimeout(() => done(found(text)), 400))}/>"""), [{"type": "City", "text": "Os"}, {"Oslo"}], way="async"),
    Trial("suggestions", "@tarekraafat/autocomplete.js", """<input id=i aria-label=City><script>new autoComplete({selector: '#i', debounce: 450,
        data: {src: (text) => fetch('/').then(() => [text + 'lo'])}})</script>""", [{"type": "City", "text": "Os"}, {"Oslo"}], ("@tarekraafat/autocomplete.js/dist/autoComplete.min.js",)),
    Trial("suggestions", "corejs-typeahead", """<input id=i aria-label=City><script>const source = new Bloodhound({datumTokenizer: Bloodhound.tokenizers.whitespace,
        queryTokenizer: Bloodhound.tokenizers.whitespace, remote: {url: '/?q=%Q', wildcard: '%Q', transform: () => ['Oslo'], transport: (asked, done) => fetch(asked.url).then(() => done(['Oslo']))}});
        $(i).typeahead({}, {source, name: 'cities'})</script>""", [{"type": "combobox:City", "text": "Os"}, {"Oslo"}, {"click": "option:Oslo"}, "i.value == 'Oslo'"], (*JQUERY, "corejs-typeahead/dist/typeahead.bundle.js")),
    Trial("suggestions", "htmx.org", """<input id=i aria-label=City name=q hx-get=/node_modules/htmx.org/LICENSE hx-trigger="input changed delay:500ms" hx-target=#o
        hx-swap="innerHTML swap:50ms"><p id=o></p>""", [{"type": "City", "text": "Os"}, {"Permission"}], ("htmx.org/dist/htmx.min.js",), "search"),
    Trial("suggestions", "tributejs", """<div id=i contenteditable aria-label=Text style="height:99px"></div><script>
        new Tribute({values: (text, done) => setTimeout(() => done([{key: 'Ada', value: 'ada'}]), 80)}).attach(i)</script>""",
        [{"type": "Text", "text": "hi @A"}, {"Ada"}, {"click": "Ada"}, "i.innerText.trim() == 'hi @ada'"], ("tributejs/dist/tribute.css", "tributejs/dist/tribute.min.js")),
    Trial("suggestions", "downshift", react("""import {useCombobox} from 'downshift'; const all = ['Berlin', 'Bern', 'Oslo'];
        const App = () => { const [items, set] = useState(all); const d = useCombobox({items, onInputValueChange: ({inputValue}) => set(all.filter((one) => one.startsWith(inputValue))), onSelectedItemChange: ({selectedItem}) => { window.chosen = selectedItem }});
          return <div><label {...d.getLabelProps()}>City</label><input {...d.getInputProps()}/><ul {...d.getMenuProps()}>{d.isOpen && items.map((item, index) => <li key={item} {...d.getItemProps({item, index})}>{item}</li>)}</ul></div> }"""),
        [{"type": "combobox:City", "text": "Ber"}, {"Bern", "Berlin"}, {"select": "combobox:City", "option": "Berlin"}, "chosen == 'Berlin'"], way="useCombobox"),
    Trial("suggestions", "@headlessui/react", react("""import {Combobox, ComboboxInput, ComboboxOptions, ComboboxOption} from '@headlessui/react'; const all = ['Berlin', 'Bern', 'Oslo'];
        const App = () => { const [city, set] = useState(null), [query, ask] = useState(''); window.chosen = city; return <Combobox value={city} onChange={set}><ComboboxInput aria-label="City" onChange={(event) => ask(event.target.value)}/>
          <ComboboxOptions anchor="bottom">{all.filter((one) => one.startsWith(query)).map((one) => <ComboboxOption key={one} value={one}>{one}</ComboboxOption>)}</ComboboxOptions></Combobox> }"""),
        [{"type": "City", "text": "Ber"}, {"Bern", "Berlin"}, {"click": "option:Berlin"}, "chosen == 'Berlin'"], way="Combobox"),
    Trial("suggestions", "@ariakit/react", react("""import * as A from '@ariakit/react'; const all = ['Berlin', 'Bern', 'Oslo'];
        const App = () => { const [text, set] = useState(''); window.chosen = text; return <A.ComboboxProvider value={text} setValue={set}><A.Combobox aria-label="City"/>
          <A.ComboboxPopover gutter={4} sameWidth>{all.filter((one) => one.startsWith(text)).map((one) => <A.ComboboxItem key={one} value={one}/>)}</A.ComboboxPopover></A.ComboboxProvider> }"""),
        [{"type": "City", "text": "Ber"}, {"Bern", "Berlin"}, {"click": "option:Berlin"}, "chosen == 'Berlin'"], way="Combobox"),
    Trial("suggestions", "react-aria-components", react("""import {ComboBox, Label, Input, Button, Popover, ListBox, ListBoxItem} from 'react-aria-components';
        const App = () => <ComboBox onSelectionChange={(now) => { window.chosen = now }}><Label>City</Label><Input/><Button>v</Button>
          <Popover><ListBox>{['Berlin', 'Bern', 'Oslo'].map((name) => <ListBoxItem key={name} id={name}>{name}</ListBoxItem>)}</ListBox></Popover></ComboBox>"""),
        [{"select": "combobox:City", "option": "Berlin"}, "chosen == 'Berlin'"], way="ComboBox"),
    Trial("suggestions", "vuetify", vuetify("<v-autocomplete label=City v-model=city :items=\"['Berlin', 'Bern', 'Oslo']\"></v-autocomplete>", "{city: null}"), [{"select": BOX, "option": "Bern"}, "vm.city == 'Bern'"], VUETIFY, "v-autocomplete"),
    Trial("suggestions", "@mui/material", react("""import {Autocomplete, TextField} from '@mui/material'; const App = () => <Autocomplete options={['Berlin', 'Bern', 'Oslo']} onChange={(_, now) => { window.chosen = now }} renderInput={(props) => <TextField {...props} label="City"/>}/>"""),
        [{"type": "City", "text": "Be"}, {"Bern", "Berlin"}, {"click": "option:Bern"}, "chosen == 'Bern'"], way="Autocomplete"),
    Trial("suggestions", "@yaireo/tagify", "<input id=i aria-label=Tags><script>const t = new Tagify(i, {whitelist: ['Red', 'Green', 'Blue'], dropdown: {enabled: 0}})</script>",
        [{"click": "textbox:.*|combobox:.*"}, {"Green"}, {"click": "Green"}, "t.value.map((one) => one.value).join() == 'Green'"], ("@yaireo/tagify/dist/tagify.css", "@yaireo/tagify/dist/tagify.js")),
    Trial("suggestions", "cmdk", react("""import {Command} from 'cmdk'; const App = () => <Command label="Commands"><Command.Input/><Command.List>
          {['Copy', 'Paste', 'Print'].map((name) => <Command.Item key={name} onSelect={(now) => { window.chosen = now }}>{name}</Command.Item>)}</Command.List></Command>"""),
        [{"type": "Commands", "text": "pri"}, {"Print"}, {"press": "Enter"}, "chosen == 'Print'"]),
]  # fmt: skip

WRITTEN = "{}.replace(/[\\u200b\\ufeff]/g, '').split(/\\s+/).filter(Boolean).join(' ')"
TEXTBOX = "textbox:.*"


def writing(read: str, html: str = "") -> list[Step]:
    """Fill, type, correct, undo, embolden and empty an editor."""
    text = WRITTEN.format(read)
    bold: list[Step] = [{"press": "Control+a"}, {"press": "Control+b"}, f"{html}.includes('<strong>')"] if html else []
    return [
        {"fill": TEXTBOX, "text": "first\nsecond"}, f"{text} == 'first second'", {"type": TEXTBOX, "text": " more"}, f"{text} == 'first second more'",
        {"press": "Backspace"}, {"press": "Enter"}, {"type": "end"}, f"{text} == 'first second mor end'", {"press": "Control+z"}, f"!{text}.includes('end')",
        *bold, {"fill": TEXTBOX, "text": ""}, f"{text} == ''",
    ]  # fmt: skip


EDITORS = [
    Trial("editors", "quill", "<div id=ed><p>old</p></div><script>window.q = new Quill('#ed')</script>", writing("q.getText()", "q.root.innerHTML"), ("quill/dist/quill.js",)),
    Trial("editors", "codemirror", "<div id=ed></div><script>import {EditorView, basicSetup} from 'codemirror'; window.editor = new EditorView({doc: 'old\\ntext', extensions: [basicSetup], parent: ed})</script>", writing("editor.state.doc.toString()")),
    Trial("editors", "prosemirror-example-setup", """<div id=ed></div><script>import {EditorState} from 'prosemirror-state'; import {EditorView} from 'prosemirror-view';
        import {DOMParser} from 'prosemirror-model'; import {schema} from 'prosemirror-schema-basic'; import {exampleSetup} from 'prosemirror-example-setup'; const el = document.createElement('div'); el.innerHTML = '<p>old</p>';
        window.view = new EditorView(ed, {state: EditorState.create({doc: DOMParser.fromSchema(schema).parse(el), plugins: exampleSetup({schema, menuBar: false})})})</script>""", writing("view.dom.innerText", "view.dom.innerHTML")),
    Trial("editors", "tinymce", "<textarea id=ed>old</textarea><script>tinymce.init({selector: '#ed', promotion: false, license_key: 'gpl'})</script>",
        writing("tinymce.activeEditor.getContent({format: 'text'})", "tinymce.activeEditor.getContent()"), ("tinymce/tinymce.min.js",)),
    Trial("editors", "@tiptap/core", "<div id=ed></div><script>import {Editor} from '@tiptap/core'; import StarterKit from '@tiptap/starter-kit'; window.tiptap = new Editor({element: ed, extensions: [StarterKit], content: '<p>old</p>'})</script>", writing("tiptap.getText()", "tiptap.getHTML()")),
    Trial("editors", "slate", react("""import {createEditor, Node} from 'slate'; import {Slate, Editable, withReact} from 'slate-react'; import {withHistory} from 'slate-history';
        const App = () => { const [editor] = useState(() => withHistory(withReact(createEditor()))); window.slate = editor;
          return <Slate editor={editor} initialValue={[{type: 'paragraph', children: [{text: 'old'}]}]}><Editable aria-label="Text"/></Slate> }; window.slateText = () => window.slate.children.map((node) => Node.string(node)).join('\\n')"""), writing("slateText()")),
    Trial("editors", "lexical", """<div id=ed contenteditable aria-label=Text></div><script>import {createEditor, $getRoot, $createParagraphNode, $createTextNode} from 'lexical'; import {registerRichText} from '@lexical/rich-text';
        import {createEmptyHistoryState, registerHistory} from '@lexical/history'; const editor = createEditor({onError: console.error}); editor.setRootElement(ed); registerRichText(editor); registerHistory(editor, createEmptyHistoryState(), 300);
        editor.update(() => $getRoot().append($createParagraphNode().append($createTextNode('old')))); window.lexicalText = () => editor.getEditorState().read(() => $getRoot().getTextContent())</script>""", writing("lexicalText()")),
    Trial("editors", "monaco-editor", "<div id=ed style='height:300px'></div><script>require.config({paths: {vs: '/node_modules/monaco-editor/min/vs'}}); "
        "require(['vs/editor/editor.main'], () => { window.mon = monaco.editor.create(ed, {value: 'old', language: 'python', quickSuggestions: false}) })</script>", writing("mon.getValue()"), ("monaco-editor/min/vs/loader.js",)),
    Trial("editors", "ace-builds", "<div id=e style='height:200px'>old</div><script>const ed = ace.edit(e)</script>", [{"fill": TEXTBOX, "text": "if a:\n    b\nc"}, "ed.getValue() == 'if a:\\n    b\\nc'"], ("ace-builds/src-noconflict/ace.js",)),
    Trial("editors", "jodit", "<textarea id=e>old</textarea><script>const ed = Jodit.make(e)</script>", [{"fill": TEXTBOX, "text": "one\ntwo"}, f"{WRITTEN.format('ed.text')} == 'one two'"], ("jodit/es2021/jodit.min.css", "jodit/es2021/jodit.min.js")),
    Trial("editors", "trix", "<trix-editor id=e aria-label=Text></trix-editor>", [{"fill": "textbox:Text", "text": "one\ntwo"}, "e.editor.getDocument().toString().trim() == 'one\\ntwo'"], ("trix/dist/trix.css", "trix/dist/trix.umd.min.js")),
    Trial("editors", "@toast-ui/editor", "<div id=ed></div><script>import Editor from '@toast-ui/editor'; import '@toast-ui/editor/dist/toastui-editor.css'; window.ed2 = new Editor({el: ed, height: '300px', initialEditType: 'wysiwyg', initialValue: 'old', usageStatistics: false})</script>",
        writing("ed2.getMarkdown()")),
    Trial("editors", "ckeditor5", """<div id=ed></div><script>import {ClassicEditor, Essentials, Bold, Paragraph} from 'ckeditor5';
        ClassicEditor.create(ed, {licenseKey: 'GPL', plugins: [Essentials, Bold, Paragraph], toolbar: ['bold'], initialData: '<p>old</p>'}).then((editor) => { window.ck = editor })</script>""",
        [{"fill": TEXTBOX, "text": "one\n\ntwo"}, "ck.getData().replace(/<br>/g, '\\n').replace(/<[^>]*>|&nbsp;/g, '') == 'one\\n\\ntwo'", {"fill": TEXTBOX, "text": "three"}, "ck.getData() == '<p>three</p>'"]),
]  # fmt: skip

BOLD = "<button id=bold>Bold</button><div id=ed></div><script>"
BOLD_PAGES = {
    "prosemirror-example-setup": BOLD + """import {EditorState} from 'prosemirror-state'; import {EditorView} from 'prosemirror-view'; import {toggleMark} from 'prosemirror-commands';
        import {DOMParser} from 'prosemirror-model'; import {schema} from 'prosemirror-schema-basic'; const el = document.createElement('div'); el.innerHTML = '<p>one two three</p>';
        const view = new EditorView(ed, {state: EditorState.create({doc: DOMParser.fromSchema(schema).parse(el)})});
        bold.onmousedown = (e) => { e.preventDefault(); toggleMark(schema.marks.strong)(view.state, view.dispatch) }</script>""",
    "@tiptap/core": BOLD + """import {Editor} from '@tiptap/core'; import StarterKit from '@tiptap/starter-kit';
        const editor = new Editor({element: ed, extensions: [StarterKit], content: '<p>one two three</p>'}); bold.onclick = () => editor.chain().focus().toggleBold().run()</script>""",
    "slate": "<button id=bold>Bold</button>" + react("""import {createEditor, Editor} from 'slate'; import {Slate, Editable, withReact} from 'slate-react'; import {withHistory} from 'slate-history';
        const leaf = ({attributes, children, leaf}) => <span {...attributes}>{leaf.bold ? <strong>{children}</strong> : children}</span>;
        const App = () => { const [editor] = useState(() => withHistory(withReact(createEditor()))); bold.onmousedown = (event) => { event.preventDefault(); Editor.addMark(editor, 'bold', true) };
          return <Slate editor={editor} initialValue={[{type: 'paragraph', children: [{text: 'one two three'}]}]}><Editable aria-label="Text" renderLeaf={leaf}/></Slate> }"""),
    "lexical": BOLD + """import {createEditor, $getRoot, $createParagraphNode, $createTextNode, FORMAT_TEXT_COMMAND} from 'lexical'; import {registerRichText} from '@lexical/rich-text';
        const editor = createEditor({onError: console.error}); editor.setRootElement(ed.appendChild(Object.assign(document.createElement('div'), {contentEditable: true}))); registerRichText(editor);
        editor.update(() => $getRoot().append($createParagraphNode().append($createTextNode('one two three')))); bold.onclick = () => editor.dispatchCommand(FORMAT_TEXT_COMMAND, 'bold')</script>""",
    "quill": "<div id=bar><button class=ql-bold aria-label=Bold>B</button></div><div id=ed><p>one two three</p></div><script>import Quill from 'quill'; import 'quill/dist/quill.snow.css'; new Quill('#ed', {theme: 'snow', modules: {toolbar: '#bar'}})</script>",
    "ckeditor5": """<div id=ed></div><script>import {ClassicEditor, Essentials, Bold, Paragraph} from 'ckeditor5';
        ClassicEditor.create(ed, {licenseKey: 'GPL', plugins: [Essentials, Bold, Paragraph], toolbar: ['bold'], initialData: '<p>one two three</p>'})</script>""",
}  # fmt: skip
STRONG = "[...document.querySelectorAll('[contenteditable] strong')].map((one) => one.textContent.trim()).sort().join() == '{}'"
EDITORS += [
    Trial("editors", library, page, [step for word in words for step in ({"select": TEXTBOX, "option": word}, {"click": "button:Bold.*"})] + [STRONG.format(",".join(sorted(words)))], way=f"bold {len(words)}")
    for library, page in BOLD_PAGES.items()
    for words in (["two"], ["three", "one", "two"])
]  # fmt: skip

CARDS = "<style>#l {position: relative; padding: 0} #l > * {width: 150px; height: 30px; list-style: none}</style><ul id=l><li><span>A</span><li><span>B</span><li><span>C</span></ul>"
A_TO_C: dict[str, object] = {"drag": "A", "to": "C"}
ORDER = "l.innerText.split(/\\s+/).filter(Boolean).join('') == 'BCA'"
SORTABLE = ("sortablejs/Sortable.min.js",)
JQUERY_UI = (*JQUERY, "jquery-ui/dist/jquery-ui.min.js")
DRAGS = [
    Trial("drag and sort", "sortablejs", CARDS + "<script>Sortable.create(l)</script>", [A_TO_C, "/^B(CA|AC)$/.test(l.innerText.replace(/\\s+/g, ''))"], SORTABLE),
    Trial("drag and sort", "sortablejs", CARDS + "<script>Sortable.create(l, {forceFallback: true})</script>", [A_TO_C, ORDER], SORTABLE, "by the mouse"),
    Trial("drag and sort", "sortablejs", CARDS + "<script>Sortable.create(l, {forceFallback: true, animation: 150})</script>", [A_TO_C, ORDER], SORTABLE, "animated"),
    Trial("drag and sort", "muuri", CARDS + "<style>li {position: absolute}</style><script>const grid = new Muuri(l, {dragEnabled: true})</script>",
        [A_TO_C, "grid.getItems().map((one) => one.getElement().innerText).join('') == 'BCA'"], ("muuri/dist/muuri.min.js",)),
    Trial("drag and sort", "jquery-ui", CARDS + "<script>$('#l').sortable()</script>", [A_TO_C, ORDER], JQUERY_UI, "sortable"),
    Trial("drag and sort", "jquery-ui", """<div id=drag style="width:60px;height:30px">Card</div><div id=bin style="width:120px;height:60px;background:silver">Bin</div>
        <script>$('#drag').draggable(); $('#bin').droppable({drop: () => { window.dropped = true }})</script>""", [{"drag": "Card", "to": "text=Bin"}, "dropped"], JQUERY_UI, "droppable", expected="awkward: a drop target without a listener has no id"),
    Trial("drag and sort", "dragula", """<div id=a style='min-height:60px;border:1px solid'><div style='cursor:move'>One</div></div>
        <div id=b style='min-height:60px;border:1px solid'><div style='cursor:move'>Two</div></div><script>dragula([a, b])</script>""",
        [{"drag": "One", "to": "Two"}, "a.textContent.trim() == '' && b.textContent.includes('One')"], ("dragula/dist/dragula.min.css", "dragula/dist/dragula.min.js")),
    Trial("drag and sort", "interactjs", """<div id=d style='width:80px;height:40px;background:#ccc;touch-action:none;cursor:grab' tabindex=0 aria-label=Box></div>
        <script>let x = 0; interact(d).draggable({onmove: (event) => { x += event.dx; d.style.transform = `translate(${x}px)` }})</script>""", [{"drag": "Box", "by": [200, 0]}, "Math.abs(x - 200) < 20"], ("interactjs/dist/interact.min.js",)),
    Trial("drag and sort", "@dnd-kit/sortable", react("""import {DndContext, closestCenter, PointerSensor, useSensor, useSensors} from '@dnd-kit/core'; import {SortableContext, arrayMove, useSortable, verticalListSortingStrategy} from '@dnd-kit/sortable'; import {CSS} from '@dnd-kit/utilities';
        const Item = ({id}) => { const s = useSortable({id}); return <div ref={s.setNodeRef} style={{transform: CSS.Transform.toString(s.transform), transition: s.transition, height: 30, width: 150}} {...s.attributes} {...s.listeners}>{id}</div> };
        const App = () => { const [items, set] = useState(['A', 'B', 'C']); window.order = items.join(''); const sensors = useSensors(useSensor(PointerSensor));
          return <DndContext sensors={sensors} collisionDetection={closestCenter} onDragEnd={({active, over}) => over && set(arrayMove(items, items.indexOf(active.id), items.indexOf(over.id)))}>
            <SortableContext items={items} strategy={verticalListSortingStrategy}>{items.map((id) => <Item key={id} id={id}/>)}</SortableContext></DndContext> }"""), [A_TO_C, "order == 'BCA'"]),
    Trial("drag and sort", "@dnd-kit/core", react("""import {DndContext, MouseSensor, useDraggable, useDroppable, useSensor, useSensors} from '@dnd-kit/core';
        const Card = () => { const d = useDraggable({id: 'card'}); return <div ref={d.setNodeRef} {...d.attributes} {...d.listeners} style={{width: 80, transform: d.transform && `translate(${d.transform.x}px, ${d.transform.y}px)`}}>Card</div> };
        const Bin = () => { const d = useDroppable({id: 'bin'}); return <div ref={d.setNodeRef} style={{marginTop: 100, width: 200, height: 80, border: '1px solid'}}>Bin</div> };
        const App = () => <DndContext sensors={useSensors(useSensor(MouseSensor, {activationConstraint: {delay: 250, tolerance: 5}}))} onDragEnd={({over}) => { window.dropped = over && over.id }}><Card/><Bin/></DndContext>"""),
        [{"drag": "Card", "to": "text=Bin"}, "dropped == 'bin'"], way="after a hold", expected="awkward: a drop target without a listener has no id"),
    Trial("drag and sort", "@hello-pangea/dnd", react("""import {DragDropContext, Droppable, Draggable} from '@hello-pangea/dnd';
        const App = () => { const [items, set] = useState(['A', 'B', 'C']); window.order = items.join('');
          const end = ({source, destination}) => { if (!destination) return; const now = [...items]; now.splice(destination.index, 0, ...now.splice(source.index, 1)); set(now) };
          return <DragDropContext onDragEnd={end}><Droppable droppableId="l">{(drop) => <div ref={drop.innerRef} {...drop.droppableProps} style={{width: 150}}>{items.map((id, index) => <Draggable key={id} draggableId={id} index={index}>
            {(drag) => <div ref={drag.innerRef} {...drag.draggableProps} {...drag.dragHandleProps} style={{height: 30, ...drag.draggableProps.style}}>{id}</div>}</Draggable>)}{drop.placeholder}</div>}</Droppable></DragDropContext> }"""),
        [A_TO_C, "order == 'BCA'"]),
]  # fmt: skip

MENUS = [
    Trial("menus", "bootstrap", """<div class=dropdown><button class="btn dropdown-toggle" data-bs-toggle=dropdown aria-expanded=false>Menu</button>
        <ul class=dropdown-menu><li><a class=dropdown-item href=# onclick="window.picked = 'copied'">Copy</a></ul></div><button data-bs-toggle=collapse data-bs-target=#c aria-expanded=false>More</button><div class=collapse id=c>details</div>""",
        [{"click": "Menu"}, {"click": "Copy"}, "picked == 'copied'", {"click": "More"}, {"details"}], ("bootstrap/dist/css/bootstrap.min.css", "bootstrap/dist/js/bootstrap.bundle.min.js"), "dropdown"),
    Trial("menus", "uikit", """<ul uk-accordion><li><a class=uk-accordion-title href>Part</a><div class=uk-accordion-content>inside</div></ul><button>Hover me</button><div uk-dropdown>dropped <a href=#>Item</a></div>""",
        [{"click": "Part"}, {"inside"}, {"hover": "Hover me"}, {"Item"}], ("uikit/dist/css/uikit.min.css", "uikit/dist/js/uikit.min.js")),
    Trial("menus", "tippy.js", "<button id=b>Help</button><script>tippy(b, {content: 'told', delay: 80, animation: false})</script>", [{"hover": "Help"}, {"told"}], ("@popperjs/core/dist/umd/popper.min.js", "tippy.js/dist/tippy-bundle.umd.min.js")),
    Trial("menus", "@radix-ui/react-dropdown-menu", react("""import * as M from '@radix-ui/react-dropdown-menu';
        const App = () => <M.Root><M.Trigger>Open</M.Trigger><M.Portal><M.Content><M.Item>Copy</M.Item><M.Sub><M.SubTrigger>More</M.SubTrigger><M.Portal><M.SubContent><M.Item onSelect={() => { window.chosen = true }}>Deep</M.Item></M.SubContent></M.Portal></M.Sub></M.Content></M.Portal></M.Root>"""),
        [{"click": "Open"}, {"hover": "More"}, {"click": "Deep"}, "chosen"]),
    Trial("menus", "@blueprintjs/core", "<style>#root {width: 200px}</style>" + react("""import {Menu, MenuItem} from '@blueprintjs/core'; const App = () => <Menu><MenuItem text="Copy"/><MenuItem text="More"><MenuItem text="Deep" onClick={() => { window.chosen = true }}/></MenuItem></Menu>"""),
        [{"hover": "menuitem:More.*"}, {"click": "menuitem:Deep"}, "chosen"]),
    Trial("menus", "@fluentui/react-menu", react("""import {Menu, MenuItem, MenuList, MenuPopover, MenuTrigger} from '@fluentui/react-menu'; import {FluentProvider} from '@fluentui/react-provider'; import {webLightTheme} from '@fluentui/react-theme';
        const App = () => <FluentProvider theme={webLightTheme}><Menu><MenuTrigger><button>Open</button></MenuTrigger><MenuPopover><MenuList><MenuItem>Copy</MenuItem>
          <Menu><MenuTrigger><MenuItem>More</MenuItem></MenuTrigger><MenuPopover><MenuList><MenuItem onClick={() => { window.chosen = true }}>Deep</MenuItem></MenuList></MenuPopover></Menu></MenuList></MenuPopover></Menu></FluentProvider>"""),
        [{"click": "Open"}, {"hover": "More"}, {"click": "Deep"}, "chosen"]),
    Trial("menus", "antd", react("""import {Dropdown, Button} from 'antd'; const items = [{key: 'copy', label: 'Copy'}, {key: 'more', label: 'More', children: [{key: 'deep', label: 'Deep'}]}];
        const App = () => <Dropdown menu={{items, onClick: ({key}) => { window.chosen = key }}}><Button>Open</Button></Dropdown>"""), [{"hover": "Open"}, {"hover": "More right"}, {"click": "Deep"}, "chosen == 'deep'"], way="Dropdown"),
    Trial("menus", "@headlessui/react", react("""import {Menu, MenuButton, MenuItems, MenuItem} from '@headlessui/react';
        const App = () => <Menu><MenuButton>Open</MenuButton><MenuItems anchor="bottom"><MenuItem><button onClick={() => { window.chosen = true }}>Copy</button></MenuItem></MenuItems></Menu>"""), [{"click": "Open"}, {"click": "Copy"}, "chosen"], way="Menu"),
    Trial("menus", "react-aria-components", react("""import {MenuTrigger, Button, Popover, Menu, MenuItem, SubmenuTrigger} from 'react-aria-components';
        const App = () => <MenuTrigger><Button>Open</Button><Popover><Menu onAction={(key) => { window.chosen = key }}><MenuItem id="copy">Copy</MenuItem><SubmenuTrigger><MenuItem>More</MenuItem><Popover><Menu onAction={(key) => { window.chosen = key }}><MenuItem id="deep">Deep</MenuItem></Menu></Popover></SubmenuTrigger></Menu></Popover></MenuTrigger>"""),
        [{"click": "Open"}, {"hover": "More"}, {"click": "Deep"}, "chosen == 'deep'"], way="Menu"),
    Trial("menus", "@shoelace-style/shoelace", "<sl-dropdown><sl-button slot=trigger caret>Open</sl-button><sl-menu><sl-menu-item value=c>Copy</sl-menu-item><sl-menu-item>More<sl-menu slot=submenu><sl-menu-item value=d>Deep</sl-menu-item></sl-menu></sl-menu-item></sl-menu></sl-dropdown>"
        "<script>import '@shoelace-style/shoelace/dist/themes/light.css'; import '@shoelace-style/shoelace/dist/shoelace.js'; document.addEventListener('sl-select', (event) => { window.chosen = event.detail.item.value })</script>",
        [{"click": "button:Open"}, {"hover": "menuitem:More"}, {"click": "menuitem:Deep"}, "chosen == 'd'"], way="sl-menu"),
]  # fmt: skip

MARCH = "new Date(2026, 2, 5)"
PICKERS = [
    Trial("pickers", "flatpickr", "<input id=d aria-label=Day><script>flatpickr(d, {defaultDate: '2026-03-05'})</script>", [{"click": "Day"}, {"click": "March 17, 2026|17"}, "d.value == '2026-03-17'"], ("flatpickr/dist/flatpickr.min.css", "flatpickr/dist/flatpickr.min.js")),
    Trial("pickers", "jquery-ui", "<input id=d aria-label=Day autocomplete=off><script>$('#d').datepicker({defaultDate: '01/01/2026'})</script>", [{"click": "Day"}, {"click": "link:31"}, "d.value == '01/31/2026'"], JQUERY_UI, "datepicker"),
    Trial("pickers", "air-datepicker", f"<input id=d aria-label=Day readonly><script>new AirDatepicker(d, {{startDate: {MARCH}, autoClose: true, dateFormat: 'yyyy-MM-dd'}})</script>", [{"click": "Day"}, {"click": "17"}, "d.value == '2026-03-17'"], ("air-datepicker/air-datepicker.css", "air-datepicker/air-datepicker.js")),
    Trial("pickers", "pikaday", f"<input id=d aria-label=Day><script>new Pikaday({{field: d, defaultDate: {MARCH}, toString: (date) => date.toDateString()}})</script>", [{"click": "Day"}, {"click": "button:17"}, "d.value == 'Tue Mar 17 2026'"], ("pikaday/css/pikaday.css", "pikaday/pikaday.js")),
    Trial("pickers", "vanillajs-datepicker", f"<input id=d aria-label=Day><script>new Datepicker(d, {{defaultViewDate: {MARCH}, autohide: true, format: 'yyyy-mm-dd'}})</script>", [{"click": "Day"}, {"click": "text=17"}, "d.value == '2026-03-17'"], ("vanillajs-datepicker/dist/css/datepicker.css", "vanillajs-datepicker/dist/js/datepicker-full.js"), expected="awkward: an ancestor listens for the days, so they have no id"),
    Trial("pickers", "litepicker", f"<input id=d aria-label=Days><script>new Litepicker({{element: d, singleMode: false, startDate: {MARCH}, endDate: {MARCH}}})</script>", [{"click": "Days"}, {"click": "17"}, {"click": "20"}, "d.value == '2026-03-17 - 2026-03-20'"], ("litepicker/dist/litepicker.js",), "range"),
    Trial("pickers", "react-datepicker", react(f"""import DatePicker from 'react-datepicker'; import 'react-datepicker/dist/react-datepicker.css'; const App = () => {{ const [day, set] = useState({MARCH}); window.day = day.toDateString(); return <DatePicker selected={{day}} onChange={{set}} ariaLabelledBy="n" id="d"/> }}"""),
        [{"click": "textbox:.*"}, {"click": ".*March 17th, 2026"}, "day == 'Tue Mar 17 2026'"]),
    Trial("pickers", "react-day-picker", react(f"""import {{DayPicker}} from 'react-day-picker'; import 'react-day-picker/style.css'; const App = () => {{ const [day, set] = useState(); window.day = day && day.toDateString(); return <DayPicker mode="single" defaultMonth={{{MARCH}}} selected={{day}} onSelect={{set}}/> }}"""),
        [{"click": ".*Next Month"}, {"click": "button:.*April 17th, 2026"}, "day == 'Fri Apr 17 2026'"]),
    Trial("pickers", "antd", react("""import {DatePicker} from 'antd'; import dayjs from 'dayjs'; const App = () => <DatePicker aria-label="Day" defaultPickerValue={dayjs('2026-03-05')} onChange={(_, text) => { window.day = text }}/>"""),
        [{"click": "Day"}, {"click": "17|2026-03-17"}, "day == '2026-03-17'"], way="DatePicker"),
    Trial("pickers", "antd", react("""import {DatePicker} from 'antd'; const App = () => <DatePicker aria-label="Day" onChange={(_, text) => { window.day = text }}/>"""),
        [{"fill": "Day", "text": "2026-03-17"}, {"press": "Enter"}, "day == '2026-03-17'"], way="DatePicker by text"),
    Trial("pickers", "element-plus", element(f"<el-date-picker v-model=day aria-label=Day :default-value='{MARCH}' value-format=YYYY-MM-DD></el-date-picker>", "{day: ''}"), [{"click": "Day"}, {"click": "17"}, "vm.day == '2026-03-17'"], ELEMENT, "el-date-picker"),
    Trial("pickers", "primevue", prime("<p-date-picker v-model=day aria-label=Day input-id=d></p-date-picker>", f"{{day: {MARCH}}}", "DatePicker"), [{"click": BOX}, {"click": "17"}, "vm.day.toDateString() == 'Tue Mar 17 2026'"], PRIME, "DatePicker"),
    Trial("pickers", "react-aria-components", react("""import {DateField, DateInput, DateSegment, Label} from 'react-aria-components'; const App = () => <DateField onChange={(day) => { window.day = String(day) }}><Label>Day</Label><DateInput>{(segment) => <DateSegment segment={segment}/>}</DateInput></DateField>"""),
        [{"type": "spinbutton:.*month.*", "text": "3"}, {"type": "spinbutton:.*day, .*", "text": "17"}, {"type": "spinbutton:.*year.*", "text": "2026"}, "day == '2026-03-17'"], way="DateField"),
    Trial("pickers", "react-aria-components", react("""import {DateField, DateInput, DateSegment, Label} from 'react-aria-components'; const App = () => <DateField onChange={(day) => { window.day = String(day) }}><Label>Day</Label><DateInput>{(segment) => <DateSegment segment={segment}/>}</DateInput></DateField>"""),
        [{"fill": "spinbutton:.*month.*", "text": "3"}, {"fill": "spinbutton:.*day, .*", "text": "17"}, {"fill": "spinbutton:.*year.*", "text": "2026"}, "day == '2026-03-17'"], way="DateField filled"),
]  # fmt: skip

DIALOGS = [
    Trial("dialogs", "bootstrap", """<button data-bs-toggle=modal data-bs-target=#m>Open</button><button onclick="window.more = true">More</button><div class="modal fade" id=m tabindex=-1><div class=modal-dialog><div class=modal-content><input aria-label=Name id=n>
        <button data-bs-dismiss=modal>Shut</button></div></div></div>""", [{"click": "Open"}, {"fill": "Name", "text": "Ada"}, "n.value == 'Ada'", {"click": "Shut"}, {"click": "More"}, "more"], ("bootstrap/dist/css/bootstrap.min.css", "bootstrap/dist/js/bootstrap.bundle.min.js"), "modal"),
    Trial("dialogs", "micromodal", """<button onclick="MicroModal.show('m')">Open</button><div id=m aria-hidden=true style='display:none'><div data-micromodal-close><div role=dialog aria-modal=true aria-label=Sure><button data-micromodal-close>Yes</button></div></div></div>
        <style>#m.is-open{display:block !important}</style>""", [{"click": "Open"}, {'dialog "Sure"'}, {"click": "Yes"}, "!m.checkVisibility()"], ("micromodal/dist/micromodal.min.js",)),
    Trial("dialogs", "sweetalert2", "<button onclick=\"Swal.fire({title: 'Name?', input: 'text'}).then((now) => { window.named = now.value })\">Ask</button>", [{"click": "Ask"}, {"fill": "textbox:.*", "text": "Ada"}, {"click": "OK"}, "named == 'Ada'"], ("sweetalert2/dist/sweetalert2.all.min.js",)),
    Trial("dialogs", "driver.js", "<h1 id=a>First</h1><button id=b onclick=\"window.used = true\">Use</button><script>import {driver} from 'driver.js'; import 'driver.js/dist/driver.css'; driver({steps: [{element: '#a', popover: {title: 'Here'}}, {element: '#b', popover: {title: 'There'}}]}).drive()</script>",
        [{"Here"}, {"click": "Next.*"}, {"There"}, {"click": "Done"}, {"click": "Use"}, "used"]),
    Trial("dialogs", "glightbox", "<a href=/picture.svg data-type=image class=g data-title=Big>Show</a><script>GLightbox({selector: '.g'})</script>", [{"click": "Show"}, {"Big"}, {"click": "Close"}, "!document.querySelector('.glightbox-container')"], ("glightbox/dist/css/glightbox.min.css", "glightbox/dist/js/glightbox.min.js")),
    Trial("dialogs", "antd", react("""import {Modal, Button, Popconfirm} from 'antd'; const App = () => { const [open, set] = useState(false); return <><Popconfirm title="Sure?" onConfirm={() => set(true)}><Button>Delete</Button></Popconfirm><Modal title="Gone" open={open} onOk={() => { window.fine = true; set(false) }} onCancel={() => set(false)}>It is gone.</Modal></> }"""),
        [{"click": "Delete"}, {"Sure?"}, {"click": "OK"}, {"It is gone."}, {"click": "button:OK"}, "fine"], way="Popconfirm, Modal"),
    Trial("dialogs", "@headlessui/react", react("""import {Dialog, DialogPanel, DialogTitle} from '@headlessui/react'; const App = () => { const [open, set] = useState(false); window.open_ = open; return <><button onClick={() => set(true)}>Open</button><Dialog open={open} onClose={() => set(false)}><DialogPanel><DialogTitle>Sure</DialogTitle><button onClick={() => set(false)}>Yes</button></DialogPanel></Dialog></> }"""),
        [{"click": "Open"}, {'dialog "Sure"'}, {"press": "Escape"}, "!open_"], way="Dialog"),
    Trial("dialogs", "vuetify", vuetify("<v-dialog width=300><template #activator='{props}'><v-btn v-bind=props>Open</v-btn></template><template #default='{isActive}'><v-card title=Sure><v-btn @click='isActive.value = false; done = true'>Yes</v-btn></v-card></template></v-dialog>", "{done: false}"),
        [{"click": "OPEN"}, {"Sure"}, {"click": "YES"}, "vm.done"], VUETIFY, "v-dialog"),
    Trial("dialogs", "@shoelace-style/shoelace", "<sl-dialog id=m label=Sure><sl-input id=n label=Name></sl-input><sl-button slot=footer onclick='m.hide()'>Yes</sl-button></sl-dialog><sl-button onclick='m.show()'>Open</sl-button>" + SHOELACE,
        [{"click": "button:Open"}, {"fill": "textbox:Name", "text": "Ada"}, {"click": "button:Yes"}, "!m.open && n.value == 'Ada'"], way="sl-dialog"),
]  # fmt: skip

PEOPLE = "[{name: 'Bo', age: 3}, {name: 'Ada', age: 5}]"
GRIDS = [
    Trial("trees and grids", "tabulator-tables", f"""<div id=t></div><script>const table = new Tabulator(t, {{height: 200, data: {PEOPLE}, columns: [{{title: 'Name', field: 'name', editor: 'input'}}, {{title: 'Age', field: 'age'}}]}})</script>""",
        [{"click": "columnheader:Name"}, "document.body.innerText.indexOf('Ada') < document.body.innerText.indexOf('Bo')", {"click": "Ada"}, {"press": "Control+a"}, {"type": "Eve\n"}, "table.getData().map((row) => row.name).sort().join() == 'Bo,Eve'"],
        ("tabulator-tables/dist/css/tabulator.min.css", "tabulator-tables/dist/js/tabulator.min.js")),
    Trial("trees and grids", "jquery.fancytree", "<div id=t></div><script>$('#t').fancytree({aria: true, source: [{title: 'Fruit', children: [{title: 'Apple'}]}, {title: 'Bread', children: [{title: 'Rye'}]}]})</script>",
        [{"click": "treeitem:Fruit", "count": 2}, {"Apple"}, {"press": "ArrowRight", "id": "treeitem:Bread"}, {"Rye"}, {"click": "treeitem:Fruit"}, "$.ui.fancytree.getTree().getActiveNode().title == 'Fruit'"],
        ("jquery.fancytree/dist/skin-win8/ui.fancytree.min.css", *JQUERY, "jquery.fancytree/dist/jquery.fancytree-all-deps.min.js")),
    Trial("trees and grids", "jstree", "<div id=t></div><script>$('#t').jstree({core: {data: [{text: 'Fruit', children: ['Apple']}, 'Bread']}})</script>",
        [{"click": "treeitem:Fruit", "count": 2}, {"Apple"}, {"click": "treeitem:Apple"}, "$('#t').jstree('get_selected', true)[0].text == 'Apple'"], ("jstree/dist/themes/default/style.min.css", *JQUERY, "jstree/dist/jstree.min.js")),
    Trial("trees and grids", "ag-grid-community", f"""<div id=t style='height:300px;width:500px'></div><script>const api = agGrid.createGrid(t, {{rowData: {PEOPLE}, columnDefs: [{{field: 'name', editable: true, filter: true}}, {{field: 'age'}}]}})</script>""",
        [{"click": "generic:Name"}, "api.getDisplayedRowAtIndex(0).data.name == 'Ada'", {"click": "gridcell:Ada", "count": 2}, {"fill": "textbox:.*", "text": "Eve"}, {"press": "Enter"}, "api.getDisplayedRowAtIndex(0).data.name == 'Eve' || api.getDisplayedRowAtIndex(1).data.name == 'Eve'"],
        ("ag-grid-community/dist/ag-grid-community.min.js",)),
    Trial("trees and grids", "handsontable", f"<div id=t></div><script>const hot = new Handsontable(t, {{data: {PEOPLE}, colHeaders: ['Name', 'Age'], licenseKey: 'non-commercial-and-evaluation'}})</script>",
        [{"click": "text=Ada"}, {"type": "Eve\n"}, "hot.getDataAtCell(1, 0) == 'Eve'"], ("handsontable/dist/handsontable.full.min.css", "handsontable/dist/handsontable.full.min.js"), expected="awkward: an ancestor listens for the cells, so they have no id"),
    Trial("trees and grids", "jspreadsheet-ce", "<div id=t></div><script>const sheet = jspreadsheet(t, {worksheets: [{data: [['Bo', 3], ['Ada', 5]], columns: [{type: 'text'}, {type: 'numeric'}]}]})</script>",
        [{"click": "text=Ada"}, {"type": "Eve\n"}, "sheet[0].getValueFromCoords(0, 1) == 'Eve'"], ("jsuites/dist/jsuites.css", "jspreadsheet-ce/dist/jspreadsheet.css", "jsuites/dist/jsuites.js", "jspreadsheet-ce/dist/index.js"), expected="awkward: an ancestor listens for the cells, so they have no id"),
    Trial("trees and grids", "antd", react("""import {Tree} from 'antd'; const data = [{key: 'f', title: 'Fruit', children: [{key: 'a', title: 'Apple'}]}, {key: 'b', title: 'Bread'}]; const App = () => <Tree checkable treeData={data} onCheck={(keys) => { window.checked_ = keys.join() }}/>"""),
        [{"press": "ArrowRight", "id": "treeitem:.*Fruit"}, {"Apple"}, {"click": "checkbox:.*Apple"}, "checked_.includes('a')"], way="Tree", expected="wrong: the key pressed at an item does not open it"),
    Trial("trees and grids", "element-plus", element("<el-table :data=people><el-table-column type=selection></el-table-column><el-table-column prop=name label=Name sortable></el-table-column></el-table>", f"{{people: {PEOPLE}}}"),
        [{"click": "Sort by Name"}, "document.querySelector('.el-table__body .el-table_1_column_2').innerText == 'Ada'"], ELEMENT, "el-table", expected="wrong: a click on the sort button leaves the order"),
    Trial("trees and grids", "vuetify", vuetify("<v-data-table :items=people v-model=some show-select item-value=name></v-data-table>", f"{{some: [], people: {PEOPLE}}}"),
        [{"click": "checkbox:.*#2"}, "vm.some.join() == 'Ada'"], VUETIFY, "v-data-table"),
]  # fmt: skip

SLIDERS = [
    Trial("sliders", "nouislider", "<div id=s style='width:300px;margin:40px'></div><script>noUiSlider.create(s, {start: 20, range: {min: 0, max: 100}})</script>",
        [{"drag": "slider:.*", "by": [150, 0]}, "Math.abs(s.noUiSlider.get() - 70) < 2", {"press": "Home", "id": "slider:.*"}, "s.noUiSlider.get() == 0"], ("nouislider/dist/nouislider.min.css", "nouislider/dist/nouislider.min.js")),
    Trial("sliders", "jquery-ui", """<style>.ui-slider{position:relative;width:200px;height:12px;background:silver;margin:20px}.ui-slider-handle{position:absolute;width:12px;height:12px;background:red}</style><div id=s></div><script>$('#s').slider()</script>""",
        [{"drag": "generic:.*|slider:.*|span:.*", "by": [100, 0]}, "Math.abs($('#s').slider('value') - 50) < 5"], JQUERY_UI, "slider"),
    Trial("sliders", "rc-slider", "<style>#root {width: 300px; margin: 40px}</style>" + react("""import Slider from 'rc-slider'; import 'rc-slider/assets/index.css'; const App = () => <Slider defaultValue={20} onChange={(now) => { window.now = now }}/>"""),
        [{"drag": "slider:.*", "by": [150, 0]}, "Math.abs(now - 70) < 2", {"press": "Home", "id": "slider:.*"}, "now == 0"]),
    Trial("sliders", "@mui/material", "<style>#root {width: 300px; margin: 40px}</style>" + react("""import {Slider} from '@mui/material'; const App = () => <Slider aria-label="Volume" defaultValue={20} onChange={(_, now) => { window.now = now }}/>"""),
        [{"drag": "slider:Volume", "by": [90, 0]}, "Math.abs(now - 50) < 2", {"fill": "slider:Volume", "text": "40"}, "now == 40"], way="Slider"),
    Trial("sliders", "ion-rangeslider", "<input id=s><script>$('#s').ionRangeSlider({min: 0, max: 100, from: 20})</script>", [{"drag": "generic:", "by": [200, 0]}, "s.value > 25"], ("ion-rangeslider/css/ion.rangeSlider.min.css", *JQUERY, "ion-rangeslider/js/ion.rangeSlider.min.js")),
    Trial("sliders", "react-aria-components", "<style>#root {width: 300px; margin: 40px} .react-aria-SliderTrack {position: relative; height: 30px; width: 100%} .react-aria-SliderThumb {width: 20px; height: 20px; top: 50%; background: red}</style>" + react(
        """import {Slider, Label, SliderTrack, SliderThumb} from 'react-aria-components'; const App = () => <Slider defaultValue={20} onChange={(now) => { window.now = now }}><Label>Volume</Label><SliderTrack><SliderThumb/></SliderTrack></Slider>"""),
        [{"fill": "slider:Volume", "text": "40"}, "now == 40"], way="Slider"),
    Trial("sliders", "@shoelace-style/shoelace", "<sl-range id=s label=Volume style='width:300px'></sl-range>" + SHOELACE, [{"fill": "slider:Volume", "text": "40"}, "s.value == 40"], way="sl-range"),
    Trial("sliders", "vuetify", vuetify("<v-slider label=Volume v-model=now step=1 style='width:300px;margin:40px'></v-slider>", "{now: 20}"), [{"press": "ArrowRight", "id": "slider:.*"}, "vm.now == 21"], VUETIFY, "v-slider"),
]  # fmt: skip

UPLOADS = [
    Trial("uploads", "dropzone", "<div id=z class=dropzone></div><script>Dropzone.autoDiscover = false; const z2 = new Dropzone('#z', {url: '/upload', autoProcessQueue: false})</script>", [{"upload": ".*Drop files here.*", "file": "note.txt"}, "z2.files[0].name == 'note.txt'", {"note.txt"}], ("dropzone/dist/dropzone.css", "dropzone/dist/dropzone-min.js")),
    Trial("uploads", "filepond", "<input type=file id=f><script>const pond = FilePond.create(f)</script>", [{"upload": "button:Drag.*", "file": "note.txt"}, "pond.getFiles()[0].filename == 'note.txt'", {"note.txt"}], ("filepond/dist/filepond.min.css", "filepond/dist/filepond.min.js")),
    Trial("uploads", "react-dropzone", react("""import {useDropzone} from 'react-dropzone'; const App = () => { const d = useDropzone(); window.names = d.acceptedFiles.map((file) => file.name).join(); return <div {...d.getRootProps()}><input {...d.getInputProps()}/><p>Drop files here, or click</p></div> }"""),
        [{"upload": "button:.*", "file": "note.txt"}, "names == 'note.txt'"]),
    Trial("uploads", "antd", react("""import {Upload, Button} from 'antd'; const App = () => <Upload beforeUpload={() => false} onChange={({fileList}) => { window.names = fileList.map((file) => file.name).join() }}><Button>Attach</Button></Upload>"""), [{"upload": "button:Attach", "file": "note.txt"}, "names == 'note.txt'", {"note.txt"}], way="Upload"),
    Trial("uploads", "element-plus", element("<el-upload drag :auto-upload=false v-model:file-list=files>Drop file here</el-upload>", "{files: []}"), [{"upload": ".*Drop file here.*", "file": "note.txt"}, "vm.files[0].name == 'note.txt'"], ELEMENT, "el-upload"),
]  # fmt: skip

FORMS = [
    Trial("forms", "react", react("""const App = () => { const [s, set] = useState({name: 'old', day: '', vol: '5', size: 'S', ok: false}); const put = (key, part = 'value') => (event) => set({...s, [key]: event.target[part]}); window.state = JSON.stringify(s);
        return <form><input aria-label="name" value={s.name} onChange={put('name')}/><input aria-label="day" type="date" value={s.day} onChange={put('day')}/><input aria-label="vol" type="range" value={s.vol} onChange={put('vol')}/>
          <select aria-label="size" value={s.size} onChange={put('size')}><option>S</option><option>L</option></select><input aria-label="ok" type="checkbox" checked={s.ok} onChange={put('ok', 'checked')}/></form> }"""),
        [{"fill": "name", "text": "Ada"}, {"type": "name", "text": " L"}, {"fill": "day", "text": "2026-01-31"}, {"fill": "vol", "text": "40"}, {"select": "size", "option": "L"}, {"click": "ok"}, """state == '{"name":"Ada L","day":"2026-01-31","vol":"40","size":"L","ok":true}'"""]),
    Trial("forms", "vue", """<div id=app><input aria-label=name v-model=name><select aria-label=size v-model=size multiple><option>S<option>L</select><input type=checkbox aria-label=ok v-model=ok></div>
        <script>window.vm = Vue.createApp({data: () => ({name: '', size: [], ok: false})}).mount('#app')</script>""", [{"fill": "name", "text": "Ada"}, {"select": "size", "options": ["S", "L"]}, {"click": "ok"}, "vm.name + vm.size + vm.ok == 'AdaS,Ltrue'"], VUE),
    Trial("forms", "imask", "<input id=i aria-label=card><script>IMask(i, {mask: '0000-0000'})</script>", [{"fill": "card", "text": "12345678"}, "i.value == '1234-5678'", {"fill": "card", "text": ""}, {"type": "card", "text": "87654321"}, "i.value == '8765-4321'"], ("imask/dist/imask.min.js",)),
    Trial("forms", "alpinejs", """<div x-data="{open: false}"><button x-on:click="setTimeout(() => open = true, 60)">Show</button><p x-show=open>shown</p></div>""", [{"click": "Show"}, {"shown"}], ("alpinejs/dist/cdn.min.js",)),
    Trial("forms", "htmx.org", "<button hx-get=/node_modules/htmx.org/LICENSE hx-target=#o>Fetch</button><p id=o></p>", [{"click": "Fetch"}, {"Permission"}], ("htmx.org/dist/htmx.min.js",), "swap"),
    Trial("forms", "react-hook-form", react("""import {useForm} from 'react-hook-form'; const App = () => { const f = useForm(); return <form onSubmit={f.handleSubmit((now) => { window.sent = JSON.stringify(now) })}><input aria-label="Name" {...f.register('name', {required: 'Name is needed'})}/>
        {f.formState.errors.name && <p role="alert">{f.formState.errors.name.message}</p>}<label><input type="checkbox" {...f.register('ok')}/> Agree</label><button>Send</button></form> }"""),
        [{"click": "Send"}, {"Name is needed"}, {"fill": "Name", "text": "Ada"}, {"click": "Agree"}, {"click": "Send"}, """sent == '{"name":"Ada","ok":true}'"""]),
    Trial("forms", "antd", react("""import {Form, Input, InputNumber, Switch, Radio, Button} from 'antd'; const App = () => <Form layout="vertical" onFinish={(now) => { window.sent = JSON.stringify(now) }}><Form.Item name="name" label="Name" rules={[{required: true}]}><Input/></Form.Item><Form.Item name="age" label="Age"><InputNumber/></Form.Item>
          <Form.Item name="on" label="On"><Switch/></Form.Item><Form.Item name="size" label="Size"><Radio.Group options={['S', 'L']} optionType="button"/></Form.Item><Button htmlType="submit">Send</Button></Form>"""),
        [{"click": "Send"}, {"'name' is required"}, {"fill": ".*Name", "text": "Ada"}, {"fill": "Age", "text": "36"}, {"fill": "switch:On", "text": "true"}, {"click": "radio:L"}, {"click": "Send"}, """sent == '{"name":"Ada","age":36,"on":true,"size":"L"}'"""], way="Form"),
    Trial("forms", "vuetify", vuetify("<v-text-field label=Name v-model=name></v-text-field><v-checkbox label=Agree v-model=ok></v-checkbox><v-switch label=On v-model=on></v-switch>", "{name: '', ok: false, on: false}"),
        [{"fill": "Name", "text": "Ada"}, {"click": "checkbox:Agree"}, {"click": "On"}, "vm.name + vm.ok + vm.on == 'Adatruetrue'"], VUETIFY, "fields"),
    Trial("forms", "@material/web", "<md-filled-text-field id=n label=Name></md-filled-text-field><md-switch id=o aria-label=On></md-switch><md-checkbox id=c aria-label=Agree></md-checkbox><script>import '@material/web/all.js'</script>",
        [{"fill": "Name", "text": "Ada"}, {"click": "switch:On"}, {"click": "checkbox:Agree"}, "n.value + o.selected + c.checked == 'Adatruetrue'"], way="fields"),
    Trial("forms", "@shoelace-style/shoelace", "<sl-input id=n label=Name></sl-input><sl-checkbox id=c>Agree</sl-checkbox><sl-radio-group id=r label=Size><sl-radio value=S>Small</sl-radio><sl-radio value=L>Large</sl-radio></sl-radio-group><sl-rating id=s label=Stars></sl-rating>" + SHOELACE,
        [{"fill": "Name", "text": "Ada"}, {"click": "Agree"}, {"click": "radio:Large"}, "n.value + c.checked + r.value == 'AdatrueL'"], way="fields"),
]  # fmt: skip

FEEDS = [
    Trial("feeds", "infinite-scroll", """<div id=f><p class=item style="height:1200px">first</p></div><script>
        new InfiniteScroll(f, {path: () => '/node_modules/infinite-scroll/package.json', responseBody: 'json', history: false, scrollThreshold: 50}).on('load', () => setTimeout(() => f.insertAdjacentHTML('beforeend', '<p>second</p>'), 100))</script>""",
        [{"scroll": 3000}, {"second"}], ("infinite-scroll/dist/infinite-scroll.pkgd.min.js",)),
    Trial("feeds", "swiper", """<div class=swiper style='width:300px'><div class=swiper-wrapper><div class=swiper-slide>first</div><div class=swiper-slide>second</div></div><div class=swiper-button-next></div></div>
        <script>const s = new Swiper('.swiper', {navigation: {nextEl: '.swiper-button-next'}})</script>""", [{"click": "Next slide"}, "s.activeIndex == 1"], ("swiper/swiper-bundle.min.css", "swiper/swiper-bundle.min.js")),
    Trial("feeds", "photoswipe", """<div id=g><a href=/picture.svg data-pswp-width=400 data-pswp-height=300>Open</a><a href=/picture.svg data-pswp-width=400 data-pswp-height=300>Other</a></div>
        <script>import Lightbox from 'photoswipe/lightbox'; import 'photoswipe/style.css'; import PhotoSwipe from 'photoswipe'; const box = new Lightbox({gallery: '#g', children: 'a', pswpModule: PhotoSwipe}); box.init(); window.box = box</script>""",
        [{"click": "Open"}, {"click": "Next"}, "box.pswp.currIndex == 1", {"wait": 500}, {"press": "Escape"}, "!box.pswp || box.pswp.isDestroying"],
        expected="awkward: the gallery hears no keys until it has opened"),
]  # fmt: skip

TRIALS = LISTS + SUGGESTIONS + EDITORS + DRAGS + MENUS + PICKERS + DIALOGS + GRIDS + SLIDERS + UPLOADS + FORMS + FEEDS
