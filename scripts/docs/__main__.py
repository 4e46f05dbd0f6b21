"""Write the generated parts of docs/, where they have changed."""

from selfsurf.scripts.docs.pages import pages

for path, text in pages().items():
    if not path.exists() or path.read_text(encoding="utf8") != text:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf8")
        print(path)
