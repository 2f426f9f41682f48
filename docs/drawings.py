"""The drawings of who sees what: ``python docs/drawings.py`` writes ``docs/drawings/*.svg``.

Colours are those of Okabe and Ito, which all kinds of colour vision can tell apart; what is hidden is also dashed,
what is seen also has a solid border, so that nothing rests on colour alone. Each drawing brings its own
ground, light or dark as the reader's system asks.
"""

from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent / "drawings"
STYLE = """
  .ground { fill: #ffffff; }
  text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 15px; fill: #1a1a1a; }
  .small { font-size: 14px; }
  .title { font-size: 17px; font-weight: 600; }
  .middle { text-anchor: middle; }
  .seen { fill: #d6ebf7; stroke: #0072b2; stroke-width: 2; }
  .hidden { fill: #f3f3f3; stroke: #777777; stroke-width: 1.5; stroke-dasharray: 6 4; }
  .choice { fill: #fdebc8; stroke: #b87800; stroke-width: 2.5; }
  .bad { fill: #fadccb; stroke: #d55e00; stroke-width: 2; }
  .line { stroke: #555555; stroke-width: 1.6; fill: none; }
  .mark { stroke: #d55e00; stroke-width: 2.5; }
  .head { fill: #555555; }
  .fill { fill: #0072b2; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #16191d; }
    text { fill: #eeeeee; }
    .seen { fill: #123c57; stroke: #56b4e9; }
    .hidden { fill: #24282d; stroke: #999999; }
    .choice { fill: #4a3606; stroke: #e69f00; }
    .bad { fill: #52230a; stroke: #f08040; }
    .line { stroke: #bbbbbb; }
    .head { fill: #bbbbbb; }
    .mark { stroke: #f08040; }
    .fill { fill: #56b4e9; }
  }
"""


class Drawing:
    """An SVG picture in the making."""

    def __init__(self, width, height, title):
        self.size = (width, height)
        self.title = title
        self.parts = []

    def text(self, x, y, words, kind=""):
        """Words; several lines if they have line breaks."""
        for k, line in enumerate(words.split("\n")):
            self.parts.append(f'<text x="{x}" y="{y + 18 * k}" class="{kind}">{escape(line)}</text>')

    def box(self, x, y, width, height, kind, words="", note=""):
        """A box with words in its middle and a note below them."""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="{kind}"/>')
        middle = x + width / 2
        if words:
            self.text(middle, y + height / 2 + (5 if not note else -3), words, "middle")
        if note:
            self.text(middle, y + height / 2 + 15, note, "small middle")

    def ring(self, x, y, width, height, kind):
        """A frame around something."""
        size = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        self.parts.append(f'<rect {size} rx="12" class="{kind}" fill-opacity="0"/>')

    def arrow(self, x1, y1, x2, y2):
        """An arrow."""
        self.parts.append(f'<path d="M{x1} {y1} L{x2} {y2}" class="line" marker-end="url(#head)"/>')

    def bar(self, x, y, width, height, share, threshold, seen):
        """A vertical bar: what is given, the hidden threshold as a dashed line."""
        kind = "bad" if seen else "hidden"
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="{kind}"/>')
        given = height * share
        self.parts.append(
            f'<rect x="{x}" y="{y + height - given}" width="{width}" height="{given}" class="fill"/>'
        )
        level = y + height * (1 - threshold)
        self.parts.append(
            f'<path d="M{x - 8} {level} H{x + width + 8}" class="mark" stroke-dasharray="5 3"/>'
        )

    def svg(self):
        """The picture as text."""
        width, height = self.size
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(self.title)}">\n<title>{escape(self.title)}</title>\n'
            f"<style>{STYLE}</style>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" class="head"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" rx="10" class="ground"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def cascade(context=False):
    """A sample goes through arms 0 and 1; arm 2 is not run; the truth is never shown."""
    words = "who sees what in a contextual cascade" if context else "who sees what in a cascade"
    d = Drawing(540, 330, words)
    d.text(16, 30, "One round; the policy stops at arm 1", "title")
    if context:
        d.box(16, 56, 100, 64, "seen", "context x", "seen first")
    else:
        d.box(16, 56, 100, 64, "hidden", "sample", "not used")
    notes = ["output seen", "output seen", "not run"]
    paid = ["part of its cost", "cost so far is paid", "not paid"]
    for k, kind in enumerate(["seen", "seen", "hidden"]):
        x = 154 + 132 * k
        d.arrow(118 if k == 0 else x - 30, 88, x - 3, 88)
        d.box(x, 56, 100, 64, kind, f"arm {k}", notes[k])
        d.text(x + 50, 146, paid[k], "small middle")
    d.ring(278, 48, 116, 80, "choice")
    d.arrow(204, 154, 226, 176)
    d.arrow(336, 154, 300, 176)
    d.box(154, 180, 210, 46, "seen", "do arms 0 and 1 differ?")
    d.box(418, 180, 100, 46, "hidden", "truth Y")
    d.text(468, 248, "never shown", "small middle")
    legend(d, 266, choice=True)
    d.text(16, 312, "Learned: how often two outputs differ" + (", given x." if context else "."), "small")
    return d


def adaptive():
    """Stages one after the other; after each the policy looks at answer and score and decides."""
    d = Drawing(540, 372, "who sees what in a cascade that stops within the round")
    d.text(16, 30, "One round; the policy decides after every answer", "title")
    words = [("stage 0", "answer, score"), ("stage 1", "answer, score"), ("stage 2", "not run")]
    for k, (name, note) in enumerate(words):
        x = 16 + 188 * k
        d.box(x, 56, 124, 64, "seen" if k < 2 else "hidden", name, note)
        d.text(x + 62, 144, "paid" if k < 2 else "not paid", "small middle")
        if k < 2:
            d.arrow(x + 62, 152, x + 62, 176)
            d.box(x, 180, 124, 46, "choice", "good enough?")
    d.text(156, 208, "no", "small")
    d.arrow(144, 190, 200, 122)
    d.text(344, 208, "yes: stop", "small")
    d.box(418, 180, 100, 46, "hidden", "truth Y")
    d.text(468, 248, "never shown", "small middle")
    d.text(16, 264, "The answer of the round is that of stage 1.", "small")
    legend(d, 288, choice=True)
    d.text(16, 334, "Learned: what going on brings, given the answers and scores so far,", "small")
    d.text(16, 352, "as the last stage judges it in the rounds that reach it.", "small")
    return d


def routing():
    """Models 0 and 2 are called; model 1 is not; the truth is never shown."""
    d = Drawing(540, 330, "who sees what when models are called alone")
    d.text(16, 30, "One round; models 0 and 2 are called", "title")
    notes = ["output seen", "not called", "it answers"]
    paid = ["paid", "not paid", "paid"]
    for k, kind in enumerate(["seen", "hidden", "seen"]):
        x = 44 + 174 * k
        d.box(x, 56, 104, 64, kind, f"model {k}", notes[k])
        d.text(x + 52, 146, paid[k], "small middle")
    d.ring(384, 48, 120, 80, "choice")
    d.arrow(100, 154, 130, 176)
    d.arrow(420, 154, 260, 176)
    d.box(64, 180, 230, 46, "seen", "do models 0 and 2 differ?")
    d.box(392, 180, 104, 46, "hidden", "truth Y")
    d.text(444, 248, "never shown", "small middle")
    legend(d, 266, choice=True)
    d.text(16, 312, "Most rounds call one model alone and show nothing.", "small")
    return d


def allocation():
    """Four arms, the budget, thresholds and what is seen."""
    d = Drawing(540, 390, "who sees what when a budget is split")
    d.text(16, 30, "One round; a budget over four arms (losses)", "title")
    arms = [
        (0.75, 0.6, False, "enough:\nthe loss is\nprevented"),
        (0.45, 0.6, True, "too little:\nlosses\nare seen"),
    ]
    arms += [
        (0.6, 0.4, False, "more than\nenough:\nnothing seen"),
        (0.0, 0.5, True, "nothing given:\nlosses\nare seen"),
    ]
    for k, (share, threshold, seen, words) in enumerate(arms):
        x = 44 + 132 * k
        d.text(x + 28, 62, f"arm {k}", "middle")
        d.bar(x, 74, 56, 130, share, threshold, seen)
        d.text(x + 28, 226, words, "small middle")
    d.parts.append('<rect x="16" y="284" width="22" height="14" class="fill"/>')
    d.text(46, 296, "what the arm gets (chosen)", "small")
    d.parts.append('<path d="M270 291 h26" class="mark" stroke-dasharray="5 3"/>')
    d.text(304, 296, "its threshold: hidden", "small")
    legend(d, 310, seen="losses are seen", seen_kind="bad", hidden="censored: 0 is shown")
    d.text(16, 356, "Rewards are the other way round:", "small")
    d.text(16, 374, "they are seen only where an arm got enough.", "small")
    return d


def multiplayer():
    """Three players on four channels; two collide."""
    d = Drawing(540, 340, "who sees what among players without communication")
    d.text(16, 30, "One slot; three players, four channels", "title")
    kinds, words = ["seen", "hidden", "bad", "hidden"], ["reward", "unused", "collision", "unused"]
    for k in range(4):
        d.box(16 + 130 * k, 54, 112, 54, kinds[k], f"channel {k}", words[k])
    notes = [(0, "sees its reward"), (2, "sees: collision"), (2, "sees: collision")]
    for k, (target, note) in enumerate(notes):
        x = 16 + 180 * k
        d.box(x, 176, 142, 56, "seen" if k == 0 else "bad", f"player {'ABC'[k]}", note)
        d.arrow(x + 71, 174, 72 + 130 * target + 14 * (k - 1), 112)
    d.text(16, 260, "No player sees the others, their channels or their number,", "small")
    d.text(16, 278, "nor with how many it collided.", "small")
    legend(d, 294, seen="reward seen", hidden="nothing seen", bad="only the collision seen")
    return d


def legend(d, y, seen="seen", hidden="hidden", seen_kind="seen", choice=False, bad=""):
    """What the boxes mean."""
    items = [(seen_kind, seen), ("hidden", hidden), *([("bad", bad)] if bad else [])]
    items += [("choice", "chosen by the policy")] if choice else []
    x = 16
    for kind, words in items:
        d.parts.append(f'<rect x="{x}" y="{y}" width="22" height="14" rx="3" class="{kind}"/>')
        d.text(x + 30, y + 12, words, "small")
        x += 60 + 8 * len(words)


def main():
    """Write all drawings."""
    FOLDER.mkdir(exist_ok=True)
    drawings = {
        "cascade": cascade(),
        "contextual": cascade(context=True),
        "adaptive": adaptive(),
        "routing": routing(),
        "allocation": allocation(),
        "multiplayer": multiplayer(),
    }
    for name, drawing in drawings.items():
        (FOLDER / f"{name}.svg").write_text(drawing.svg())


if __name__ == "__main__":
    main()
