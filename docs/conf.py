"""Sphinx's settings for the site; `make site` assembles the pages (tools/site.py) and builds it."""

import warnings

import trtdsl

project = "trtdsl"
author = "the authors of trtdsl"
copyright = "the authors of trtdsl"
version = release = trtdsl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["conf.py"]
html_theme = "furo"
html_title = f"trtdsl {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["ref.python"]  # `bytes` in a signature is the type, and a member of five classes too

add_module_names = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
maximum_signature_line_length = 90
python_use_unqualified_type_names = True
python_display_short_literal_types = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

warnings.filterwarnings("ignore")
