"""A person with a browser who visits the explorer."""

PATIENCE = 300_000
"""Milliseconds, for machines with other work to do."""


class Visit:
    """A person with a browser of their own; hears everything the page complains about or asks."""

    def __init__(self, browser, url, width=1440, theme="light", delay=0):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        if delay:  # a slow line: answers come after the hand has moved on
            self.context.add_init_script(
                f"const quick = fetch; window.fetch = (...asked) => new Promise((done) =>"
                f" setTimeout(done, {delay})).then(() => quick(...asked));"
            )
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.errors, self.asked = [], []
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.open(url)

    def open(self, url):
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready=true]")

    def answered(self, act, model=0):
        """Do something and wait until the model has answered it."""
        box = self.page.locator(f"[data-model='{model}']")
        before = int(box.get_attribute("data-answers"))
        act()
        self.page.wait_for_function(
            "([n, model]) => Number(document.querySelector(`[data-model='${model}']`)"
            ".dataset.answers) > n && !document.querySelector('[data-waiting]')",
            arg=[before, model],
        )

    def cells(self, target, model=0):
        """Texts of a grid, [layers + 1][T]."""
        return self.page.eval_on_selector_all(
            f"[data-model='{model}'] [data-target={target}] .lattice .line",
            "lines => lines.map((l) => [...l.querySelectorAll('.cell')].map((c) => c.textContent))",
        )

    def cell(self, target, layer, t, model=0):
        return self.page.locator(f"[data-model='{model}'] [data-key='{target}-{layer}-{t}']")

    def answer(self, model=0):
        return self.page.locator(f"[data-model='{model}'] .reply h3 b").text_content()

    def sequence(self, name="actions"):
        return self.page.locator(f"#{name}").input_value().split()

    def close(self):
        assert self.errors == []
        self.context.close()
